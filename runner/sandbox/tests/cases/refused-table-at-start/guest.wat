(module
  (table 100001 funcref)
  (func (export "_start")))
