// Command gateway is a REST gateway over gRPC as grpc-gateway makes one: gateway MARKETD LISTEN
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	apiv2 "marketd.example/gateway/gen/datanode/api/v2"
)

func main() {
	mux := runtime.NewServeMux()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	err := apiv2.RegisterTradingDataServiceHandlerFromEndpoint(context.Background(), mux, os.Args[1], options)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(os.Args[2], mux))
}
