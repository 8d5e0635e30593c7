import unittest
from collections import Counter

from driver.plan import BURN, LATENCY, Size, chosen, interleaved, pauses_ms
from driver.systems import BATCHED, MODES, ORDER, SINGLE, STOKEHOLD, Mode


class PlanTest(unittest.TestCase):
    def test_every_round_makes_the_same_runs_in_another_order(self):
        plan = interleaved(MODES, 3, Size())
        rounds = [[(run.mode, run.phase, run.handler) for run in plan if run.round == number]
                  for number in (1, 2, 3)]
        self.assertEqual(Counter(rounds[0]), Counter(rounds[1]))
        self.assertEqual(Counter(rounds[0]), Counter(rounds[2]))
        self.assertNotEqual(rounds[0][0], rounds[1][0])
        self.assertEqual(max(Counter(rounds[0]).values()), 1)

    def test_a_slow_mode_gets_the_jobs_of_its_time_and_no_more_than_all(self):
        slow = Mode("queue", "slow", SINGLE, "node:x", slow_jobs_per_s=700)
        self.assertEqual(Size().jobs_of(slow), 14_000)
        self.assertEqual(Size.of(5_000, quick=False).jobs_of(slow), 5_000)
        self.assertEqual(Size.of(None, quick=True).jobs_of(slow), 700)
        crawling = Mode("queue", "crawling", SINGLE, "node:x", slow_jobs_per_s=1)
        self.assertEqual(Size().jobs_of(crawling), 200)

    def test_a_fast_mode_gets_all_jobs(self):
        fast = Mode("queue", "fast", BATCHED, "node:x")
        self.assertEqual(Size.of(None, quick=False).jobs_of(fast), 400_000)
        self.assertEqual(Size.of(None, quick=True).jobs_of(fast), 20_000)
        self.assertEqual(Size.of(123, quick=True).jobs_of(fast), 123)

    def test_a_mode_without_a_handler_or_latency_has_no_such_run(self):
        mode = Mode("queue", "plain", BATCHED, "node:x", handlers=("noop",))
        plan = interleaved([mode], 1, Size())
        self.assertEqual([(run.phase, run.handler) for run in plan], [(BURN, "noop")])

    def test_words_choose_by_system_and_by_mode(self):
        self.assertEqual({mode.system for mode in chosen(MODES, ["stokehold"])}, {STOKEHOLD})
        self.assertEqual(len(chosen(MODES, ["wasi command"])), 1)
        self.assertEqual(chosen(MODES, ["no such"]), [])
        self.assertEqual(chosen(MODES, []), list(MODES))

    def test_modes_have_names_of_their_own(self):
        names = Counter((mode.system, mode.name) for mode in MODES)
        self.assertEqual(max(names.values()), 1)

    def test_every_shape_and_handler_has_a_peer_and_bare_sql_to_compare_with(self):
        for mode in MODES:
            for handler in mode.handlers:
                for is_peer in (True, False):
                    others = [other for other in MODES if other.is_peer == is_peer
                              and other.shape == mode.shape and handler in other.handlers]
                    self.assertTrue(others, f"{mode.name} {handler}")

    def test_pauses_are_the_same_for_everyone(self):
        self.assertEqual(pauses_ms(50), pauses_ms(50))
        self.assertGreater(len(set(pauses_ms(50))), 10)

    def test_a_run_says_what_it_is(self):
        run = next(run for run in interleaved(MODES, 1, Size()) if run.handler == ORDER)
        self.assertIn("order, 400000 jobs", str(run))
        latency = next(run for run in interleaved(MODES, 1, Size()) if run.phase == LATENCY)
        self.assertTrue(str(latency).endswith("latency"))
