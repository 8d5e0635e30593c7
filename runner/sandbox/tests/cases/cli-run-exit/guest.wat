;; Leaves through the exit of WASI 0.2.
(component
  (import "wasi:cli/exit@0.2.0" (instance $exit
    (export "exit" (func (param "status" (result))))))
  (core func $exit' (canon lower (func $exit "exit")))
  (core module $m
    (import "host" "exit" (func $exit (param i32)))
    (func (export "run") (result i32) (call $exit (i32.const 0)) unreachable))
  (core instance $i (instantiate $m (with "host" (instance (export "exit" (func $exit'))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $cli (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $cli)))
