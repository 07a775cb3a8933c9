import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Message;
import com.google.protobuf.MessageOrBuilder;
import com.google.protobuf.Struct;
import com.google.protobuf.util.JsonFormat;
import datanode.api.v2.TradingDataServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.MethodDescriptor.PrototypeMarshaller;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;
import marketd.history.v1.MarketHistoryServiceGrpc;

/**
 * Makes calls by grpc-java, with the code that protoc and protoc-gen-grpc-java generate, and prints what each of them
 * gave: Calls ADDRESS CALLS. A line of JSON for each call, a list of replies in the JSON of protobuf, or of an error.
 */
public final class Calls {
  /** A Struct may be in an Any. */
  private static final JsonFormat.TypeRegistry TYPES =
      JsonFormat.TypeRegistry.newBuilder().add(Struct.getDescriptor()).build();

  public static void main(String[] args) throws Exception {
    var channel = Grpc.newChannelBuilder(args[0], InsecureChannelCredentials.create()).build();
    for (var call : JsonParser.parseString(Files.readString(Path.of(args[1]))).getAsJsonArray()) {
      System.out.println(outcomes(channel, call.getAsJsonObject()));
    }
    channel.shutdownNow();
  }

  private static JsonArray outcomes(Channel channel, JsonObject call) throws Exception {
    var method = method(call.get("method").getAsString());
    var prototype = (Message) ((PrototypeMarshaller<Message>) method.getRequestMarshaller()).getMessagePrototype();
    var request = prototype.newBuilderForType();
    JsonFormat.parser().merge(call.get("request").toString(), request);
    var taken = new JsonArray();
    try {
      var replies = replies(channel, method, request.build());
      while (taken.size() < call.get("messagesMax").getAsInt() && replies.hasNext()) {
        taken.add(outcome("reply", JsonParser.parseString(json(replies.next())).getAsJsonObject()));
      }
    } catch (StatusRuntimeException refused) {
      var error = new JsonObject();
      error.addProperty("code", refused.getStatus().getCode().value());
      error.addProperty("message", refused.getStatus().getDescription());
      taken.add(outcome("error", error));
    }
    return taken;
  }

  @SuppressWarnings("unchecked")
  private static MethodDescriptor<Message, Message> method(String name) {
    var services = Stream.of(TradingDataServiceGrpc.getServiceDescriptor(), MarketHistoryServiceGrpc.getServiceDescriptor());
    var methods = services.flatMap(service -> service.getMethods().stream());
    return (MethodDescriptor<Message, Message>)
        methods.filter(each -> name.equals(each.getBareMethodName())).findFirst().orElseThrow();
  }

  private static Iterator<Message> replies(Channel channel, MethodDescriptor<Message, Message> method, Message request) {
    if (method.getType() == MethodType.SERVER_STREAMING) {
      return ClientCalls.blockingServerStreamingCall(channel, method, CallOptions.DEFAULT, request);
    }
    return List.of(ClientCalls.blockingUnaryCall(channel, method, CallOptions.DEFAULT, request)).iterator();
  }

  private static String json(MessageOrBuilder message) throws Exception {
    return JsonFormat.printer().usingTypeRegistry(TYPES).print(message);
  }

  private static JsonObject outcome(String name, JsonObject value) {
    var outcome = new JsonObject();
    outcome.add(name, value);
    return outcome;
  }
}
