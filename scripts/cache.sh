# Where downloaded tools are kept. Sourced by the other scripts; outside target/ on purpose.
# shellcheck shell=bash disable=SC2034
cache=${STOKEHOLD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stokehold}/toolchain
guest_env=$cache/guest.env

# Prints the compiler options that keep this machine's folders out of what is compiled: panic
# messages carry source paths, and a handler should read the same wherever it was built.
remap_options() {
  local folder
  for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
    printf -- '--remap-path-prefix=%s=/deps/ ' "$folder"
  done
}
