;; Asks for timers and never drops one.
(component
  (import "wasi:io/poll@0.2.0" (instance $poll (export "pollable" (type (sub resource)))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $p))
    (export "pollable" (type $q (eq $p)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $q))))))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core module $m
    (import "host" "subscribe" (func $subscribe (param i64) (result i32)))
    (func $leak (export "run") (result i32)
      (loop (drop (call $subscribe (i64.const 3600000000000))) (br 0))
      (i32.const 0)))
  (core instance $i (instantiate $m (with "host" (instance (export "subscribe" (func $subscribe))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $cli (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $cli)))
