import unittest
from xml.dom import minidom

from driver import plot, table
from driver.figures import Result, median, percentile, percentiles, ratio, rows
from driver.plan import BURN, LATENCY, Run
from driver.systems import BATCHED, NOOP, SQL, STOKEHOLD, Mode

SQL_MODE = Mode(SQL, "100", BATCHED, "rust:sql")
OWN = Mode(STOKEHOLD, "component", BATCHED, "stokehold")
PEER = Mode("queue & co", "tuned", BATCHED, "node:x", latency={}, rows_kept=False)
SLOWER = Mode("other", "tuned", BATCHED, "node:y")


def burn(mode, rate, number=1, share=0.0, **more):
    return Result(Run(number, mode, BURN, NOOP, 1000), {"jobs_per_s": rate, **more}, share)


def wait(mode, p50, share=0.0):
    run = Run(1, mode, LATENCY, NOOP, 10)
    return Result(run, {"latency_ms": {"p50": p50, "p95": p50 + 1, "p99": p50 + 2}}, share)


class FiguresTest(unittest.TestCase):
    def test_a_percentile_is_a_value_that_was_measured(self):
        values = list(range(100, 0, -1))
        self.assertEqual(percentiles(values), {"p50": 50, "p95": 95, "p99": 99})
        self.assertEqual(percentile([7], 99), 7)
        self.assertEqual(percentile([1, 2], 50), 1)

    def test_a_median_is_of_what_is_known(self):
        self.assertEqual(median([3, None, 1, 2]), 2)
        self.assertEqual(median([1, 2]), 1.5)
        self.assertIsNone(median([None]))

    def test_noisy_runs_do_not_count_beside_quiet_ones(self):
        [row] = rows([burn(PEER, 100), burn(PEER, 10, 2, share=0.3), burn(PEER, 120, 3)])
        self.assertEqual(row.rates, [100, 120])
        self.assertEqual(row.rate, 110)
        self.assertFalse(row.is_noisy)

    def test_noisy_runs_count_and_are_marked_where_there_is_no_other(self):
        [row] = rows([burn(PEER, 10, share=0.3)])
        self.assertEqual(row.rate, 10)
        self.assertTrue(row.is_noisy)
        self.assertIn("10 *", table.markdown([row], []))

    def test_a_noisy_latency_is_better_than_none(self):
        [row] = rows([burn(PEER, 100), wait(PEER, 5.0, share=0.5)])
        self.assertEqual(row.latency_ms["p50"], 5.0)

    def test_the_latency_that_a_throughput_run_brings_is_taken(self):
        [row] = rows([burn(OWN, 100, latency_ms={"p50": 1.5, "p95": 2.0, "p99": 3.0})])
        self.assertEqual(row.latency_ms["p99"], 3.0)

    def test_a_failed_run_leaves_the_others(self):
        failed = Result(Run(1, PEER, BURN, NOOP, 1000), error="it broke")
        [row] = rows([failed, burn(PEER, 100, 2)])
        self.assertEqual(row.rates, [100])
        [row] = rows([failed])
        self.assertIsNone(row.rate)
        self.assertIn("failed", table.markdown([row], []))


class TableTest(unittest.TestCase):
    def setUp(self):
        self.rows = rows([burn(SLOWER, 300), burn(PEER, 500), burn(OWN, 900), burn(SQL_MODE, 1000)])

    def test_ratios_are_to_the_fastest_peer_and_to_bare_sql(self):
        lines = [line for line in table.markdown(self.rows, []).splitlines() if "| noop" in line]
        self.assertEqual([line.split(" | ")[0] for line in lines],
                         ["| bare SQL", "| Stokehold", "| queue & co", "| other"])
        self.assertIn("| 900 | 1.80 | 0.90 |", lines[1])
        self.assertIn("| no |", lines[2])

    def test_the_headline_names_ratio_and_peer(self):
        headline = table.headline(self.rows)
        self.assertIn("**1.80 times**", headline)
        self.assertIn("queue & co, 500 jobs/s", headline)
        self.assertIn("0.90 of bare SQL", headline)

    def test_the_headline_is_of_the_product_as_it_comes(self):
        special = Mode(STOKEHOLD, "1 slot", BATCHED, "stokehold", {"slots": 1})
        headline = table.headline([*self.rows, *rows([burn(special, 9000)])])
        self.assertIn("**1.80 times**", headline)

    def test_a_headline_from_a_busy_machine_says_so(self):
        headline = table.headline(rows([burn(OWN, 900, share=0.2), burn(PEER, 500)]))
        self.assertIn("not to be relied on", headline)
        self.assertNotIn("relied", table.headline(self.rows))

    def test_without_the_product_there_is_no_headline_figure(self):
        self.assertIn("No ratio", table.headline(rows([burn(PEER, 500)])))
        self.assertIsNone(ratio(None, self.rows[0]))

    def test_every_line_of_the_table_has_as_many_cells(self):
        lines = [line for line in table.markdown(self.rows, []).splitlines() if line[:1] == "|"]
        counts = {line.replace("\\|", "").count("|") for line in lines}
        self.assertEqual(counts, {len(table.COLUMNS) + 1})

    def test_the_span_of_several_rounds_is_shown(self):
        [row] = rows([burn(PEER, 1000), burn(PEER, 3000, 2), burn(PEER, 2000, 3)])
        self.assertEqual(table.rate(row), "2,000 (1,000–3,000)")

    def test_the_plot_is_an_image_with_a_bar_for_each_row(self):
        document = minidom.parseString(plot.svg(self.rows))
        self.assertEqual(len(document.getElementsByTagName("rect")), 1 + len(self.rows))
        self.assertTrue(plot.svg([]).startswith("<svg"))
