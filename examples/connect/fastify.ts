// MARKETD_DATABASE_URL=mysql://… API_TOKEN=… node fastify.ts
// marketd's methods in a Fastify server, for clients that have a token.
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { fastify } from "fastify";
import { jsonOptions, openMarketd } from "marketd/connect";

const { MARKETD_DATABASE_URL: database, API_TOKEN: token, PORT: port = "8080" } = process.env;
if (!database || !token) throw new Error("set MARKETD_DATABASE_URL and API_TOKEN");

const requireToken: Interceptor = (next) => (request) => {
  if (request.header.get("authorization") !== `Bearer ${token}`) {
    throw new ConnectError("send the header Authorization: Bearer TOKEN", Code.Unauthenticated);
  }
  return next(request);
};

const marketd = await openMarketd({ database });
// Connect's own default for a request is 4 GB.
const limits = { readMaxBytes: 262_144, maxTimeoutMs: 3_600_000 };
const app = fastify();
await app.register(fastifyConnectPlugin, {
  routes: marketd.routes,
  interceptors: [requireToken],
  jsonOptions,
  ...limits,
});
app.addHook("onClose", () => marketd.close());
console.log(await app.listen({ host: "127.0.0.1", port: Number(port) }));
