(module
  (table 1 externref)
  (func (export "_start")))
