import { render } from "preact";
import { App } from "./app.js";
import { BookStore } from "./books/book-store.js";
import { MarketDirectory } from "./service/market-directory.js";
import { ServiceStatus } from "./service/service-status.js";

const container = document.getElementById("app");
if (container === null) throw new Error("the page has no element #app");

const books = new BookStore();
const directory = new MarketDirectory();
const status = new ServiceStatus();
books.start();
directory.start(books);
status.start();
render(<App books={books} directory={directory} status={status} />, container);
