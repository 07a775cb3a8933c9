// node mounted.mjs DATABASE_URL: the handlers of the packed package on plain servers of HTTP/1.1 and HTTP/2, as Connect's
// guide has them. Prints their URLs as a line of JSON.
import { once } from "node:events";
import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { openMarketd } from "marketd/connect";

const { routes } = await openMarketd({ database: process.argv[2] });
const handler = connectNodeAdapter({ routes });
const urls = [];
// By default a server closes a connection that idled for 5 s, on which a slow machine's client may be sending.
const keepAliveTimeout = 600_000;
for (const server of [createServer({ keepAliveTimeout }, handler), createHttp2Server(handler)]) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  urls.push(`http://127.0.0.1:${server.address().port}`);
}
console.log(JSON.stringify(urls));
