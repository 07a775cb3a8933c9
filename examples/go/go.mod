module marketd.example/examples

go 1.24.0

require marketd.example/marketd v0.1.0

require (
	connectrpc.com/connect v1.19.1 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20250804133106-a7a43d27e69b // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250804133106-a7a43d27e69b // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)

replace marketd.example/marketd => ../../clients/go
