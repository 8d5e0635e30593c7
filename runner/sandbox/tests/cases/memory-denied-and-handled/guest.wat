;; Is denied memory and gets on without it: no failure.
(module
  (memory (export "memory") 1)
  (func (export "_start") (drop (memory.grow (i32.const 65000)))))
