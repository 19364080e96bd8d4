import { AGENT_USER } from "@berth/protocol/inside"
import type { Mount } from "@berth/protocol/sandbox"
import type { CacheName } from "@berth/protocol/workspace"

interface Place {
  readonly target: string
  /** The variables by which tools find the cache. */
  readonly environment?: Readonly<Record<string, string>>
}

const ROOT = "/var/cache/berth"

/**
 * The path of each cache inside. It is outside of the home where a tool can be told so: the home outlives the sandbox,
 * and its user may put anything in the way. Cargo cannot be told where to put its downloads alone, and apt has a fixed
 * place.
 */
const PLACES: Readonly<Record<CacheName, Place>> = {
  npm: { target: `${ROOT}/npm`, environment: { npm_config_cache: `${ROOT}/npm` } },
  pip: { target: `${ROOT}/pip`, environment: { PIP_CACHE_DIR: `${ROOT}/pip` } },
  go: {
    target: `${ROOT}/go`,
    environment: { GOMODCACHE: `${ROOT}/go/mod`, GOCACHE: `${ROOT}/go/build` },
  },
  cargo: { target: `${AGENT_USER.home}/.cargo/registry` },
  apt: { target: "/var/cache/apt/archives" },
}

export const cacheMounts = (caches: readonly CacheName[]): Mount[] =>
  [...new Set(caches)].map((cache) => ({
    kind: "cache",
    cache,
    target: PLACES[cache].target,
  }))

export const cacheEnvironment = (caches: readonly CacheName[]): Record<string, string> =>
  Object.assign({}, ...caches.map((cache) => PLACES[cache].environment ?? {}))
