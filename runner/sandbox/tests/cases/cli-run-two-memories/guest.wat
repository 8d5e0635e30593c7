;; Two modules of 64 MiB each where 100 are allowed: the limit is on their sum.
(component
  (core module $one (memory 1024))
  (core module $two (memory 1024) (func (export "run") (result i32) (i32.const 0)))
  (core instance (instantiate $one))
  (core instance $i (instantiate $two))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $cli (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $cli)))
