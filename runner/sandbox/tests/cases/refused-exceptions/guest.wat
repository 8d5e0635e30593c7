(module
  (tag $oops)
  (func (export "_start") (throw $oops)))
