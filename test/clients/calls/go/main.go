// Command calls makes calls by google.golang.org/grpc, with the messages that protoc-gen-go generates, and prints what
// each of them gave: calls ADDRESS CALLS. A line of JSON for each call, a list of replies in the JSON of protobuf, or of
// an error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	_ "google.golang.org/protobuf/types/known/structpb" // may be in an Any
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	historyv1 "marketd.example/marketd/gen/marketd/history/v1"
)

type call struct {
	Method      string
	Request     json.RawMessage
	MessagesMax int
}

type outcome struct {
	Reply json.RawMessage `json:"reply,omitempty"`
	Error *failure        `json:"error,omitempty"`
}

type failure struct {
	Code    uint32 `json:"code"`
	Message string `json:"message"`
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(address, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var calls []call
	if err := json.Unmarshal(text, &calls); err != nil {
		return err
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	for _, each := range calls {
		taken, err := outcomes(connection, each)
		if err != nil {
			return err
		}
		line, err := json.Marshal(taken)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return connection.Close()
}

func outcomes(connection *grpc.ClientConn, each call) ([]outcome, error) {
	service := apiv2.File_datanode_api_v2_trading_data_proto.Services().ByName("TradingDataService")
	method := service.Methods().ByName(protoreflect.Name(each.Method))
	if method == nil {
		service = historyv1.File_marketd_history_v1_market_history_proto.Services().ByName("MarketHistoryService")
		method = service.Methods().ByName(protoreflect.Name(each.Method))
	}
	request, err := newMessage(method.Input())
	if err != nil {
		return nil, err
	}
	if err := protojson.Unmarshal(each.Request, request); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	path := fmt.Sprintf("/%s/%s", service.FullName(), method.Name())
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: method.IsStreamingServer()}, path)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(request); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	taken := []outcome{}
	for len(taken) < each.MessagesMax {
		reply, err := newMessage(method.Output())
		if err != nil {
			return nil, err
		}
		if err := stream.RecvMsg(reply); err == io.EOF {
			break
		} else if err != nil {
			refused := status.Convert(err)
			return append(taken, outcome{Error: &failure{uint32(refused.Code()), refused.Message()}}), nil
		}
		text, err := protojson.Marshal(reply)
		if err != nil {
			return nil, err
		}
		taken = append(taken, outcome{Reply: text})
		if !method.IsStreamingServer() {
			break
		}
	}
	return taken, nil
}

func newMessage(desc protoreflect.MessageDescriptor) (proto.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(desc.FullName())
	if err != nil {
		return nil, err
	}
	return kind.New().Interface(), nil
}
