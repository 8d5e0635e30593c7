;; Starts with 32 MiB where 16 are allowed.
(module
  (memory (export "memory") 512)
  (func (export "_start")))
