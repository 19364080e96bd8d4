import { MAX_HAVE } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { HostRepos } from "../repos/host-repos.ts"
import { IncomingBundle } from "./bundles.ts"
import type { HostRequests } from "./host-requests.ts"

/**
 * Fetches repos of the host by asking the server. In a bundle, `HEAD` is the wanted commit. The ref is beside it by its
 * full name, unless a commit was asked for by its id.
 */
export const hostRepos = (hostRequests: HostRequests): HostRepos => ({
  fetch: async ({ repo, ref, have, submodule, path }, signal) => {
    const bundle = new IncomingBundle(path)
    try {
      const {
        kind: _,
        bundled,
        ...told
      } = await hostRequests.send(
        {
          kind: "repo",
          repo,
          ...(ref !== undefined && { ref }),
          have: have.slice(0, MAX_HAVE),
          ...(submodule && { submodule: { of: submodule.of, paths: [...submodule.paths] } }),
        },
        signal,
        { bundle },
      )
      if (bundled && !bundle.isWhole)
        throw new BerthError("bridge.protocol_violated", "the server sent no bundle")
      return { branch: undefined, ...told, isBundled: bundled }
    } catch (thrown) {
      await bundle.discard()
      throw thrown
    }
  },
})
