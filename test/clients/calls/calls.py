"""Makes calls with the messages and the stub that grpcio-tools generates, and prints what each of them gave.

calls.py ADDRESS CALLS: a line of JSON for each call, a list of replies in the JSON of protobuf, or of an error.
"""

import json
import sys
from itertools import islice

import grpc
from google.protobuf import json_format, struct_pb2  # noqa: F401, a Struct may be in an Any
from marketd_client.gen.datanode.api.v2 import trading_data_pb2, trading_data_pb2_grpc
from marketd_client.gen.marketd.history.v1 import market_history_pb2, market_history_pb2_grpc

SERVICES = (
    ("TradingDataService", trading_data_pb2, trading_data_pb2_grpc.TradingDataServiceStub),
    ("MarketHistoryService", market_history_pb2, market_history_pb2_grpc.MarketHistoryServiceStub),
)
METHODS = {
    name: (method, messages, stub)
    for service, messages, stub in SERVICES
    for name, method in messages.DESCRIPTOR.services_by_name[service].methods_by_name.items()
}


def outcomes(channel, call):
    method, messages, stub = METHODS[call["method"]]
    request = json_format.ParseDict(call["request"], getattr(messages, method.input_type.name)())
    taken = []
    try:
        replies = getattr(stub(channel), method.name)(request)
        for reply in islice(replies, call["messagesMax"]) if method.server_streaming else [replies]:
            taken.append({"reply": json_format.MessageToDict(reply)})
    except grpc.RpcError as error:
        taken.append({"error": {"code": error.code().value[0], "message": error.details()}})
    return taken


address, calls = sys.argv[1:]
with grpc.insecure_channel(address) as channel, open(calls) as file:
    for each in json.load(file):
        print(json.dumps(outcomes(channel, each)))
