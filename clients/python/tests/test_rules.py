"""The cases that the clients in every language are tried with, read from the file that CASES names."""

import json
import os
import socket
import threading
import time
import unittest
from concurrent import futures
from datetime import datetime, timezone
from decimal import Decimal
from unittest import mock

import grpc
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from marketd_client import (
    MESSAGE_MAX_BYTES,
    Client,
    DepthBook,
    ExportDiffers,
    ListDoesNotAdvance,
    accounts,
    balance_changes,
    book_at,
    candles,
    is_transient,
    ledger_entries,
    read_depth,
    replay,
    retry_wait_seconds,
    scaled_price,
    scaled_size,
    trades,
)
from marketd_client.client import _OPTIONS as client_options
from marketd_client.gen.datanode.api.v2.trading_data_pb2 import (
    AccountBalance,
    AccountEdge,
    AccountsConnection,
    AggregatedBalance,
    AggregatedBalanceConnection,
    AggregatedBalanceEdge,
    AggregatedLedgerEntriesConnection,
    AggregatedLedgerEntriesEdge,
    Candle,
    CandleDataConnection,
    CandleEdge,
    GetAssetResponse,
    GetLastTradeResponse,
    ListAccountsResponse,
    ListBalanceChangesResponse,
    ListCandleDataResponse,
    ListLedgerEntriesResponse,
    ListTradesResponse,
    ObserveMarketsDepthUpdatesResponse,
    ObserveTradesResponse,
    PageInfo,
    TradeConnection,
    TradeEdge,
)
from marketd_client.gen.datanode.api.v2.trading_data_pb2_grpc import (
    TradingDataServiceServicer,
    add_TradingDataServiceServicer_to_server,
)
from marketd_client.gen.marketd.history.v1.market_history_pb2 import (
    BlockPlace,
    GetMarketDepthAtResponse,
    MarketHistoryState,
    MarketHistoryStatus,
    ReplayMarketsDepthResponse,
)
from marketd_client.gen.marketd.history.v1.market_history_pb2_grpc import (
    MarketHistoryServiceServicer,
    add_MarketHistoryServiceServicer_to_server,
)
from marketd_client.gen.vega.assets_pb2 import Asset, AssetDetails
from marketd_client.gen.vega.markets_pb2 import Market
from marketd_client.gen.vega.vega_pb2 import MarketDepthUpdate, PriceLevel, Trade
from marketd_client.ledger import ExportCheck
from marketd_client.stream import SILENCE_MAX_SECONDS, watched, with_retries

with open(os.environ["CASES"], encoding="utf-8") as file:
    CASES = json.load(file)


def levels(texts):
    parts = [text.split() for text in texts]
    return [PriceLevel(price=price, volume=int(volume), number_of_orders=int(n)) for price, volume, n in parts]


def update_of(update):
    return MarketDepthUpdate(
        market_id="m",
        buy=levels(update["buy"]),
        sell=levels(update["sell"]),
        sequence_number=int(update["sequence"]),
        previous_sequence_number=int(update["previous"]),
    )


class Failed(grpc.RpcError):
    def __init__(self, code, retry_info_ms=None, retry_after=None):
        self._code = next(one for one in grpc.StatusCode if one.value[0] == code)
        self._metadata = [] if retry_after is None else [("retry-after", retry_after)]
        if retry_info_ms is not None:
            info = RetryInfo()
            info.retry_delay.FromMilliseconds(retry_info_ms)
            status = Status()
            status.details.add().Pack(info)
            self._metadata.append(("grpc-status-details-bin", status.SerializeToString()))

    def code(self):
        return self._code

    def details(self):
        return "failed"

    def trailing_metadata(self):
        return self._metadata


class Rules(unittest.TestCase):
    def test_depth_updates(self):
        for case in CASES["depthUpdates"]:
            with self.subTest(case["name"]):
                book = DepthBook("m")
                outcomes = [book.apply(update_of(update)) for update in case["updates"]]
                self.assertEqual(outcomes, [update["outcome"] for update in case["updates"]])
                held = case["book"] or {"sequence": None, "buy": [], "sell": []}
                self.assertEqual(book.sequence_number, held["sequence"] and int(held["sequence"]))
                self.assertEqual((book.buy, book.sell), (levels(held["buy"]), levels(held["sell"])))
                best = [side[0] if side else None for side in (book.buy, book.sell)]
                self.assertEqual([book.best_bid, book.best_offer], best)

    def test_whole_books_take_bids_as_fast_as_offers(self):
        def seconds(**sides):
            book, update = DepthBook("m"), MarketDepthUpdate(market_id="m", sequence_number=1, **sides)
            start = time.process_time()
            book.apply(update)
            return time.process_time() - start, len(book.buy) + len(book.sell)

        # Both come best first.
        ascending = [PriceLevel(price=str(price), volume=1) for price in range(1, 100_001)]
        of_offers, offers = seconds(sell=ascending)
        of_bids, bids = seconds(buy=ascending[::-1])
        self.assertEqual((bids, offers), (100_000, 100_000))
        self.assertLess(of_bids, 3 * of_offers)

    def test_waits(self):
        for case in CASES["waits"]:
            with self.subTest(case["name"]):
                error = Failed(case["code"], case.get("retryInfoMs"), case.get("retryAfter"))
                wait = retry_wait_seconds(error, case["failures"], case["random"])
                self.assertEqual(round(wait * 1000), case["waitMs"])

    def test_details_that_cannot_be_read_are_none(self):
        longest = RetryInfo()
        longest.retry_delay.seconds = 2**62
        status = Status()
        status.details.add().Pack(longest)
        damaged = Status()
        damaged.details.add().Pack(longest)
        damaged.details[0].value = b"\xff"
        for details, asked in ((b"\xff", 0.0), (damaged.SerializeToString(), 0.0), (status.SerializeToString(), 600.0)):
            error = Failed(grpc.StatusCode.UNAVAILABLE.value[0])
            error.trailing_metadata = lambda details=details: (("grpc-status-details-bin", details),)
            self.assertEqual(retry_wait_seconds(error, 1, 1.0), asked + 0.25)

    def test_permanent_errors(self):
        codes = [code.value[0] for code in grpc.StatusCode if code != grpc.StatusCode.OK]
        permanent = [code for code in codes if not is_transient(Failed(code))]
        self.assertEqual(sorted(permanent), CASES["permanentCodes"])

    def test_exports(self):
        for case in CASES["exports"]:
            with self.subTest(case["name"]):
                def verify(case=case):
                    check = ExportCheck()
                    for piece in case["pieces"]:
                        check.update(piece.encode())
                    return check.finish(case["stated"])

                if case["error"] is None:
                    self.assertEqual(verify().sha256, case["stated"]["export-sha256"])
                else:
                    with self.assertRaises(ExportDiffers) as raised:
                        verify()
                    message = str(raised.exception)
                    self.assertIn(case["error"], message)
                    self.assertTrue(message.isprintable() and len(message) < 200, message)

    def test_decimals(self):
        for case in CASES["scales"]:
            with self.subTest(case["name"]):
                (price, decimals, scaled), (size, size_decimals, scaled_to) = case["price"], case["size"]
                market = Market(id="m", decimal_places=decimals, position_decimal_places=size_decimals)
                for scale, integer, expected in ((scaled_price, price, scaled), (scaled_size, int(size), scaled_to)):
                    if expected is not None:
                        self.assertEqual(scale(market, integer), expected)
                    elif abs(decimals if scale is scaled_price else size_decimals) > 78:
                        self.assertRaisesRegex(ValueError, '^market "m" has -?[0-9]+ decimal places', scale, market, integer)

    def test_urls(self):
        for case in CASES["urls"]:
            with self.subTest(case["url"]):
                if case["valid"]:
                    Client(case["url"]).close()
                else:
                    self.assertRaisesRegex(ValueError, "is not the URL of a server: it looks like", Client, case["url"])
        Client("http://localhost:8080/").close()
        self.assertRaisesRegex(ValueError, "has a path", Client, "https://example.org/prefix")


class Scripted(TradingDataServiceServicer):
    """Each stream sends the messages of the next script, then ends, or fails with what the script ends with."""

    def __init__(self, scripts=(), pages=()):
        self.scripts = list(scripts)
        self.pages = list(pages)
        self.requests = []

    def ObserveMarketsDepthUpdates(self, request, context):
        for step in self.scripts.pop(0):
            if isinstance(step, grpc.StatusCode):
                context.abort(step, "as scripted")
            if isinstance(step, threading.Event):
                step.wait(10)
            else:
                yield ObserveMarketsDepthUpdatesResponse(update=step)

    def ListLedgerEntries(self, request, context):
        self.requests.append(request)
        return self.pages.pop(0)


def status_of(code):
    return next(one for one in grpc.StatusCode if one.value[0] == code)


class ScriptedTrades(TradingDataServiceServicer):
    """Each call does what the next of the script says."""

    def __init__(self, calls):
        self.calls = list(calls)
        self.requests = []

    def _next(self, request, context):
        self.requests.append(request)
        if not self.calls or not request.startswith(self.calls[0]["call"]):
            context.abort(grpc.StatusCode.NOT_FOUND, "out of script")
        call = self.calls.pop(0)
        height = call.get("height", call["time"])
        context.send_initial_metadata([("x-block-timestamp", call["time"]), ("x-block-height", height)])
        return call

    def ListTrades(self, request, context):
        if list(request.market_ids) != ["m"] or request.pagination.newest_first:
            context.abort(grpc.StatusCode.NOT_FOUND, "wrong request")
        text = "list"
        if request.date_range.HasField("start_timestamp"):
            text += f" from={request.date_range.start_timestamp}"
        if request.pagination.HasField("after"):
            text += f" after={request.pagination.after}"
        call = self._next(text, context)
        if call.get("end", 0) != 0:
            context.abort(status_of(call["end"]), "as scripted")
        trades = trades_of(call["trades"])
        edges = [TradeEdge(node=trade, cursor=f"{trade.id}{at}") for at, trade in enumerate(trades)]
        info = PageInfo(has_next_page="next" in call, end_cursor=call.get("next", ""))
        return ListTradesResponse(trades=TradeConnection(edges=edges, page_info=info))

    def GetLastTrade(self, request, context):
        call = self._next("last" if request.market_id == "m" else "wrong market", context)
        if call.get("end", 0) != 0:
            context.abort(status_of(call["end"]), "as scripted")
        return GetLastTradeResponse(trade=trades_of(call["trades"])[0])

    def ObserveTrades(self, request, context):
        call = self._next("stream", context)
        for message in call["messages"]:
            yield ObserveTradesResponse(trades=trades_of(message))
        if call["end"] != 0:
            status = Status(code=call["end"])
            status.details.add().Pack(ErrorInfo(reason=call.get("reason", "")))
            context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
            context.abort(status_of(call["end"]), "as scripted")


def trades_of(texts):
    parts = [text.split() + [""] for text in texts]
    return [Trade(id=id, timestamp=int(timestamp), price=price) for id, timestamp, price, *_ in parts]


class Candles(TradingDataServiceServicer):
    """Three pages of candles, of which the second is empty."""

    def __init__(self):
        self.requests = []

    def ListCandleData(self, request, context):
        self.requests.append(request)
        count = len(self.requests)
        edges = [] if count == 2 else [CandleEdge(node=Candle(open=str(count)))]
        info = PageInfo(has_next_page=count < 3, end_cursor=f"c{count}")
        return ListCandleDataResponse(candles=CandleDataConnection(edges=edges, page_info=info))


class Balances(TradingDataServiceServicer):
    """Accounts with one balance, of one asset."""

    def __init__(self, amount, decimals):
        self.amount = amount
        self.decimals = decimals
        self.assets = 0

    def ListAccounts(self, request, context):
        edge = AccountEdge(node=AccountBalance(asset="a", balance=self.amount))
        return ListAccountsResponse(accounts=AccountsConnection(edges=[edge, edge]))

    def ListBalanceChanges(self, request, context):
        edge = AggregatedBalanceEdge(node=AggregatedBalance(asset_id="a", balance=self.amount))
        return ListBalanceChangesResponse(balances=AggregatedBalanceConnection(edges=[edge]))

    def GetAsset(self, request, context):
        self.assets += 1
        if self.decimals is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown")
        return GetAssetResponse(asset=Asset(id=request.asset_id, details=AssetDetails(decimals=int(self.decimals))))


class Replays(MarketHistoryServiceServicer):
    """Each stream sends what the next script says."""

    def __init__(self, streams=()):
        self.streams = list(streams)
        self.requests = []

    def ReplayMarketsDepth(self, request, context):
        names = ("from_timestamp", "until_timestamp", "speed", "resume_token")
        given = [name for name in names if request.HasField(name)]
        shown = [f"{name.partition('_')[0].replace('resume', 'token')}={getattr(request, name)}" for name in given]
        self.requests.append(" ".join(shown))
        script = self.streams.pop(0)
        for message in script["messages"]:
            yield replay_message(**message)
        if script["end"] != 0:
            context.abort(status_of(script["end"]), "as scripted")

    def GetMarketDepthAt(self, request, context):
        self.requests.append(request.timestamp)
        return GetMarketDepthAtResponse(
            market_id=request.market_id,
            buy=levels(["9 1 1"]),
            sequence_number=7,
            decimal_places=2,
            position_decimal_places=-1,
        )


def replay_message(update, block=None, token="", status=(), caughtUp=False):
    parts = [text.split() for text in status]
    statuses = [
        MarketHistoryStatus(
            market_id="m",
            state=f"MARKET_HISTORY_STATE_{state}",
            decimal_places=int(price),
            position_decimal_places=int(size),
        )
        for state, price, size in parts
    ]
    place = None if block is None else BlockPlace(stream_sequence=int(block))
    updates = [update_of(one) for one in update]
    return ReplayMarketsDepthResponse(
        update=updates, block=place, resume_token=token, status=statuses, caught_up=caughtUp
    )


class Proxy:
    """Forwards TCP to a port. Once ``is_silent``, what its first connection carries is lost, and neither end is told."""

    def __init__(self, port):
        self.is_silent = False
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        is_first = True
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(*ends, is_first), daemon=True).start()
            is_first = False

    def _forward(self, source, target, is_first):
        try:
            while data := source.recv(1 << 16):
                if not (is_first and self.is_silent):
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Hanging:
    """A call whose ``next`` does not return, though it is cancelled: gRPC has such calls, seldom (grpc/grpc#20562)."""

    def __init__(self, *messages):
        self.messages = iter(messages)
        self.was_cancelled = threading.Event()
        self.lets_go = threading.Event()

    def __iter__(self):
        return self

    def __next__(self):
        for message in self.messages:
            return message
        self.lets_go.wait()
        raise StopIteration

    def cancel(self):
        self.was_cancelled.set()
        return True


class Watched(unittest.TestCase):
    def threads(self):
        return [thread for thread in threading.enumerate() if thread.name == "marketd-stream"]

    def test_a_call_that_does_not_end_is_left_behind(self):
        call = Hanging(1, 2)
        self.addCleanup(call.lets_go.set)
        seen = []
        with self.assertRaises(grpc.RpcError) as raised:
            for message in watched(call, threading.Event(), 0.3):
                seen.append(message)
        self.assertEqual([*seen, raised.exception.details()], [1, 2, "no message for 0.3 s"])
        self.assertTrue(call.was_cancelled.is_set())

    def test_stop_ends_a_call_that_does_not_end(self):
        call, stop = Hanging(1), threading.Event()
        self.addCleanup(call.lets_go.set)
        threading.Timer(0.2, stop.set).start()
        self.assertEqual(list(watched(call, stop, 30)), [1])
        self.assertTrue(call.was_cancelled.is_set())

    def test_any_error_of_a_call_is_raised_at_once(self):
        class Broken(Hanging):
            def __next__(self):
                raise ValueError("closed")

        with self.assertRaisesRegex(ValueError, "^closed$"):
            list(watched(Broken(), threading.Event(), 30))

    def test_a_reader_ends_with_what_is_thrown_into_it(self):
        waits = []
        reader = with_retries(lambda: [[1, 2], [3]], lambda _: True, threading.Event(), lambda *wait: waits.append(wait))
        self.assertEqual(next(reader), 1)
        with self.assertRaises(Failed):
            reader.throw(Failed(grpc.StatusCode.UNAVAILABLE.value[0]))
        self.assertEqual([*reader, *waits], [])

    def test_no_thread_stays_of_a_stream_that_is_broken_off(self):
        for taken in range(20):
            call = Hanging(*range(30))
            reader = watched(call, threading.Event(), 30)
            self.assertEqual([next(reader) for _ in range(taken)], list(range(taken)))
            reader.close()
            call.lets_go.set()
        for thread in self.threads():
            thread.join(5)
        self.assertEqual(self.threads(), [])


class Calls(unittest.TestCase):
    """Against a real server of gRPC in this process."""

    def serve(self, service, through=None):
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        if isinstance(service, Replays):
            add_MarketHistoryServiceServicer_to_server(service, server)
        else:
            add_TradingDataServiceServicer_to_server(service, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        client = Client(f"http://127.0.0.1:{port if through is None else through(port)}")
        self.addCleanup(client.close)
        return client

    def test_the_depth_reader_starts_again_with_whole_books(self):
        whole = [update_of({"previous": "0", "sequence": "10", "buy": ["9 1 1"], "sell": []})]
        following = [update_of({"previous": "10", "sequence": "20", "buy": ["9 2 1"], "sell": []})]
        after_next = [update_of({"previous": "30", "sequence": "40", "buy": ["9 3 1"], "sell": []})]
        silence = threading.Event()
        client = self.serve(
            Scripted(
                [
                    [whole, following],
                    [whole, grpc.StatusCode.UNAVAILABLE],
                    [[], whole, after_next],
                    [whole, silence],
                    [whole, grpc.StatusCode.NOT_FOUND],
                ]
            )
        )
        self.addCleanup(silence.set)
        seen = []
        reader = read_depth(
            client,
            silence_max_seconds=0.5,
            on_connect=lambda: seen.append("connected"),
            on_disconnect=lambda error, _: seen.append(error.details()),
        )
        with self.assertRaises(grpc.RpcError) as raised:
            for book, _ in reader:
                seen.append(f"{book.sequence_number}: {book.best_bid.volume}")
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        gap = "updates of market m are missing"
        start = ["connected", "10: 1"]
        steps = [*start, "20: 2", "the stream ended", *start, "as scripted", *start, gap]
        self.assertEqual(seen, [*steps, *start, "no message for 0.5 s", *start])

    @unittest.skipUnless(os.environ.get("MARKETD_TESTS_THOROUGH") == "true", "gRPC waits 10 s or more before it pings")
    def test_a_silent_connection_is_not_used_again(self):
        whole = [update_of({"previous": "0", "sequence": "10", "buy": [], "sell": []})]
        hanging = threading.Event()
        self.addCleanup(hanging.set)
        proxies = []

        def through(port):
            proxies.append(Proxy(port))
            self.addCleanup(proxies[0].close)
            return proxies[0].port

        # The client's own pings, and half its patience.
        options = [(name, value // 2 if value == 20_000 else value) for name, value in client_options]
        with mock.patch("marketd_client.client._OPTIONS", options):
            client = self.serve(Scripted([[whole, hanging], [whole, grpc.StatusCode.NOT_FOUND]]), through)
        stop, breaks, books = threading.Event(), [], 0

        def on_disconnect(error, _):
            breaks.append(error.details())
            if len(breaks) == 2:
                stop.set()

        with self.assertRaises(grpc.RpcError) as raised:
            for _ in read_depth(client, stop=stop, silence_max_seconds=SILENCE_MAX_SECONDS / 2, on_disconnect=on_disconnect):
                books += 1
                proxies[0].is_silent = True
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        self.assertEqual((books, len(breaks)), (2, 1), breaks)

    def test_replays(self):
        for case in CASES["replays"]:
            with self.subTest(case["name"]):
                service = Replays(case["streams"])
                client = self.serve(service)
                seen = []
                calls = {
                    "on_connect": lambda: seen.append("connected"),
                    "on_disconnect": lambda error, _: seen.append(error.details()),
                    "on_status": lambda status: seen.append(MarketHistoryState.Name(status.state).rpartition("_")[2]),
                }
                past = case["past"]
                if past is None:
                    changes = read_depth(client, **calls)
                else:
                    until = {"until": int(past["until"]), "speed": float(past["speed"])} if "until" in past else {}
                    changes = replay(client, from_time=int(past["from"]), **until, **calls)
                books, whole_books = [], 0
                try:
                    for change in changes:
                        book, update = change
                        books += [] if any(one is book for one in books) else [book]
                        whole_books += update.previous_sequence_number == 0
                        live = " live" if change.is_live else ""
                        place = f"at {change.block.stream_sequence}{live}"
                        seen.append(f"{book.sequence_number}: {book.best_bid.volume} {place}")
                        self.assertEqual(change.scale.position_decimal_places, 3)
                except grpc.RpcError as error:
                    seen.append(error.details())
                self.assertEqual(seen, case["seen"])
                self.assertEqual(service.requests, case["requests"])
                self.assertEqual(len(books), whole_books)

    def test_book_at(self):
        service = Replays()
        client = self.serve(service)
        book, response = book_at(client, "m", datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=timezone.utc))
        book_at(client, "m", 1_700_000_000_123_456_789)
        self.assertEqual(service.requests, [1_700_000_000_123_456_000, 1_700_000_000_123_456_789])
        self.assertEqual(book.sequence_number, 7)
        scaled = [scaled_price(response, book.best_bid.price), scaled_size(response, 1)]
        self.assertEqual(scaled, ["0.09", "10"])

    def test_trades(self):
        for case in CASES["trades"]:
            with self.subTest(case["name"]):
                service = ScriptedTrades(case["calls"])
                seen = []
                reader = trades(
                    self.serve(service),
                    "m",
                    None if case["from"] is None else int(case["from"]),
                    on_disconnect=lambda error, _, seen=seen: seen.append(error.details()),
                )
                try:
                    for trade in reader:
                        seen.append(trade.id)
                        trade.price = "of the caller"
                except grpc.RpcError as error:
                    seen.append(error.details())
                except ListDoesNotAdvance as error:
                    seen.append(str(error))
                self.assertEqual(seen, case["seen"])
                self.assertEqual(service.requests, case["requests"])

    def test_trades_end_while_a_list_hangs(self):
        asked, stop = threading.Event(), threading.Event()

        class Hanging(TradingDataServiceServicer):
            def ListTrades(self, request, context):
                asked.set()
                stop.wait(30)
                time.sleep(3)
                return ListTradesResponse()

        client = self.serve(Hanging())
        threading.Thread(target=lambda: (asked.wait(30), stop.set())).start()
        since = time.monotonic()
        self.assertEqual(list(trades(client, "m", stop=stop)), [])
        self.assertLess(time.monotonic() - since, 2)

    def test_candles_are_read_oldest_first_over_pages_and_up_to_a_time(self):
        service = Candles()
        start = datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
        found = candles(self.serve(service), "m", "15 minutes", start, 5_000_000_000, page_size=7)
        self.assertEqual([candle.open for candle in found], ["1", "3"])
        for request in service.requests:
            asked = (request.candle_id, request.from_timestamp, request.to_timestamp)
            self.assertEqual(asked, ("trades_candle_15_minutes_m", 10**9, 5 * 10**9))
            self.assertEqual((request.pagination.first, request.pagination.newest_first), (7, False))
        self.assertEqual([request.pagination.after for request in service.requests], ["", "c1", "c2"])

    def test_balances(self):
        for case in CASES["amounts"]:
            with self.subTest(case["name"]):
                service = Balances(case["amount"], case["decimals"])
                client = self.serve(service)
                if "error" in case:
                    for read in (accounts, balance_changes):
                        with self.assertRaises((grpc.RpcError, ValueError)) as raised:
                            list(read(client))
                        self.assertIn(case["error"], str(raised.exception))
                    continue
                scaled = None if case["scaled"] is None else Decimal(case["scaled"])
                expected = None if scaled is None else "a"
                found = list(accounts(client))
                self.assertEqual(service.assets, 1)
                for one in (*found, *balance_changes(client)):
                    self.assertEqual((one.asset and one.asset.id, one.balance), (expected, scaled))
                self.assertEqual(len(found), 2)

    def test_the_depth_reader_can_be_stopped(self):
        whole = [update_of({"previous": "0", "sequence": "10", "buy": [], "sell": []})]
        silence = threading.Event()
        client = self.serve(Scripted([[whole, silence]]))
        self.addCleanup(silence.set)
        stop = threading.Event()
        for _ in read_depth(client, stop=stop):
            stop.set()

    def test_ledger_entries_go_on_over_short_and_empty_pages(self):
        def page(cursors, has_next_page, end_cursor):
            edges = [AggregatedLedgerEntriesEdge(cursor=cursor) for cursor in cursors]
            info = PageInfo(has_next_page=has_next_page, end_cursor=end_cursor)
            connection = AggregatedLedgerEntriesConnection(edges=edges, page_info=info)
            return ListLedgerEntriesResponse(ledger_entries=connection)

        service = Scripted(pages=[page("ab", True, "b"), page("", True, "m"), page("z", False, "z")])
        edges = ledger_entries(self.serve(service), newest_first=False, page_size=2)
        self.assertEqual([edge.cursor for edge in edges], ["a", "b", "z"])
        paginations = [request.pagination for request in service.requests]
        self.assertEqual([pagination.after for pagination in paginations], ["", "b", "m"])
        self.assertEqual([(one.first, one.newest_first) for one in paginations], [(2, False)] * 3)

    def test_lists_that_lead_in_a_circle_end(self):
        for case in CASES["lists"]:
            with self.subTest(case["name"]):
                cursors = [*case["endCursors"], "end"]
                pages = [
                    ListLedgerEntriesResponse(
                        ledger_entries=AggregatedLedgerEntriesConnection(
                            edges=[AggregatedLedgerEntriesEdge(cursor="x")],
                            page_info=PageInfo(has_next_page=n < len(cursors) - 1, end_cursor=cursor),
                        )
                    )
                    for n, cursor in enumerate(cursors)
                ]
                edges = ledger_entries(self.serve(Scripted(pages=pages)), after=case["after"])
                if case["advances"]:
                    self.assertEqual(len(list(edges)), len(cursors))
                else:
                    self.assertRaisesRegex(ListDoesNotAdvance, 'back to the cursor "', list, edges)

    def test_a_message_that_is_too_large_ends_the_reader(self):
        level = PriceLevel(price="1" * 78, volume=1, number_of_orders=1)
        levels = [level] * (MESSAGE_MAX_BYTES // level.ByteSize() + 1)
        huge = [MarketDepthUpdate(market_id="m", sequence_number=10, buy=levels)]
        with self.assertRaises(grpc.RpcError) as raised:
            next(read_depth(self.serve(Scripted([[huge]]))))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_a_price_that_is_none_breaks_the_stream(self):
        bad = [MarketDepthUpdate(market_id="m", sequence_number=10, buy=[PriceLevel(price="1\u202e" + "x" * 100, volume=1)])]
        seen = []
        reader = read_depth(
            self.serve(Scripted([[bad], [grpc.StatusCode.NOT_FOUND]])),
            on_disconnect=lambda error, _: seen.append(error.details()),
        )
        self.assertRaises(grpc.RpcError, next, reader)
        self.assertTrue(seen[0].startswith('market "m" has the price "1\\u202e') and len(seen[0]) < 200, seen)


if __name__ == "__main__":
    unittest.main()
