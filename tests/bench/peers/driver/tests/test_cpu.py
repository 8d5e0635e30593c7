import json
import unittest

from driver import order, stokehold
from driver.cpu import TICKS_PER_S, Moment, Process, Usage, parse_busy, parse_stat, tree_seconds
from driver.systems import ORDER


class CpuTest(unittest.TestCase):
    def test_a_name_with_parentheses_and_spaces_does_not_mislead(self):
        text = "77 (a) b (c)) S 42 1 1 0 -1 0 0 0 0 0 100 50 30 20 20 0 1 0 99"
        process = parse_stat(text)
        self.assertEqual(process.parent, 42)
        self.assertEqual(process.seconds, 200 / TICKS_PER_S)

    def test_idle_and_waiting_are_not_work(self):
        line = "cpu  10 20 30 1000 2000 1 2 3 0 0"
        self.assertEqual(parse_busy(line), 66 / TICKS_PER_S)

    def test_a_tree_is_a_process_and_all_that_come_from_it(self):
        family = {1: Process(0, 1.0), 2: Process(1, 2.0), 3: Process(2, 4.0), 9: Process(0, 8.0)}
        self.assertEqual(tree_seconds(2, family), 6.0)
        self.assertEqual(tree_seconds(5, family), 0.0)

    def test_what_is_not_ours_is_foreign(self):
        before = Moment(wall=0, busy=0, postgres=0, worker=0, driver=0)
        after = Moment(wall=10, busy=16, postgres=8, worker=3, driver=1)
        usage = Usage.between(before, after, cores=2)
        self.assertEqual((usage.postgres_s, usage.worker_s), (8, 3))
        self.assertAlmostEqual(usage.foreign_share, 0.2)


class StokeholdTest(unittest.TestCase):
    def test_fields_that_a_binary_does_not_report_are_unknown(self):
        figures = stokehold.read('{"jobs_per_s": 5.0}')
        self.assertEqual(figures["jobs_per_s"], 5.0)
        self.assertIsNone(figures["worker_us_per_job"])
        self.assertNotIn("latency_ms", figures)

    def test_percentiles_and_costs_are_taken_over(self):
        figures = stokehold.read(json.dumps({
            "jobs_per_s": 5.0, "node_cpu_us_per_job": 12.5, "postgres_cpu_us_per_job": 20.0,
            "enqueue_to_start_ms": {"p50": 1, "p95": 2, "p99": 3, "max": 9}}))
        self.assertEqual((figures["postgres_us_per_job"], figures["worker_us_per_job"]),
                         (20.0, 12.5))
        self.assertEqual(figures["latency_ms"], {"p50": 1, "p95": 2, "p99": 3})

    def test_jobs_that_ended_otherwise_are_not_counted(self):
        with self.assertRaisesRegex(ValueError, "9 of 10"):
            stokehold.verify(lambda _: "9", 10, ORDER)
        stokehold.verify(lambda _: "10", 10, ORDER)


class OrderTest(unittest.TestCase):
    def test_an_order_is_about_one_kilobyte_and_adds_up(self):
        size = len(json.dumps(order.order(), separators=(",", ":")))
        self.assertTrue(900 <= size <= 1100, size)
        lines = order.order()["lines"]
        self.assertEqual(sum(line["quantity"] * line["price_cents"] for line in lines),
                         order.total_cents())
        self.assertEqual(order.total()["lines"], len(lines))
