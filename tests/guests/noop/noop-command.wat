;; The smallest command: ends at once with exit code 0, reads nothing and prints nothing.
(module
  (memory (export "memory") 1)
  (func (export "_start")))
