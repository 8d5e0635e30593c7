;; Reads past the end of its only page.
(module
  (memory (export "memory") 1)
  (func $read_row (result i32) (i32.load (i32.const 65536)))
  (func (export "_start") (drop (call $read_row))))
