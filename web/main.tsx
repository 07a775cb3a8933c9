import { render } from "preact";
import { App } from "./app.js";
import { BookStore } from "./books/book-store.js";
import { followAssets } from "./service/assets.js";
import { MarketDirectory } from "./service/market-directory.js";
import { ServiceStatus } from "./service/service-status.js";

const container = document.getElementById("app");
if (container === null) throw new Error("the page has no element #app");

const directory = new MarketDirectory();
const books = new BookStore((marketId, blockHeight) => directory.read(marketId, blockHeight));
const status = new ServiceStatus();
books.start();
directory.start(books);
status.start(books);
followAssets();
render(<App books={books} directory={directory} status={status} />, container);
