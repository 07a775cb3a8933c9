"""The cases that the clients in every language are tried with, read from the file that CASES names."""

import json
import os
import threading
import unittest
from concurrent import futures

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from marketd_client import Client, DepthBook, ExportDiffers, is_transient, ledger_entries, read_depth, retry_wait_seconds
from marketd_client.gen.datanode.api.v2.trading_data_pb2 import (
    AggregatedLedgerEntriesConnection,
    AggregatedLedgerEntriesEdge,
    ListLedgerEntriesResponse,
    ObserveMarketsDepthUpdatesResponse,
    PageInfo,
)
from marketd_client.gen.datanode.api.v2.trading_data_pb2_grpc import (
    TradingDataServiceServicer,
    add_TradingDataServiceServicer_to_server,
)
from marketd_client.gen.vega.vega_pb2 import MarketDepthUpdate, PriceLevel
from marketd_client.ledger import ExportCheck

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

    def test_waits(self):
        for case in CASES["waits"]:
            with self.subTest(case["name"]):
                error = Failed(case["code"], case.get("retryInfoMs"), case.get("retryAfter"))
                wait = retry_wait_seconds(error, case["failures"], case["random"])
                self.assertEqual(round(wait * 1000), case["waitMs"])

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
                    self.assertRaisesRegex(ExportDiffers, case["error"], verify)


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


class Calls(unittest.TestCase):
    """Against a real server of gRPC in this process."""

    def serve(self, service):
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        add_TradingDataServiceServicer_to_server(service, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        client = Client(f"http://127.0.0.1:{port}")
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


if __name__ == "__main__":
    unittest.main()
