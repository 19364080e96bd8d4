import { PLAIN_ENV } from "@berth/host/child"
import { findTool } from "@berth/host/find-tool"
import { BerthError } from "@berth/protocol/errors"

/** The host's programs that sandboxes are made with. */
export interface Tools {
  readonly runtime: { readonly name: "crun" | "runc"; readonly path: string }
  readonly conmon: string
  readonly tini: string
  /** perl, which mounts in the place of mount(8); undefined where there is none. */
  readonly perl: string | undefined
}

/** Finds the programs. crun comes before runc, since it starts a container in a third of the time. */
export const findTools = async (path: string = PLAIN_ENV.PATH): Promise<Tools> => {
  const [crun, runc, conmon, tiniStatic, tini, perl] = await Promise.all(
    ["crun", "runc", "conmon", "tini-static", "tini", "perl"].map((tool) => findTool(tool, path)),
  )
  return {
    runtime: crun ? { name: "crun", path: crun } : { name: "runc", path: need("crun", runc, path) },
    conmon: need("conmon", conmon, path),
    // The static tini starts on any system, also one without glibc.
    tini: need("tini", tiniStatic ?? tini, path),
    perl,
  }
}

const need = (tool: string, found: string | undefined, path: string): string => {
  if (found !== undefined) return found
  throw new BerthError("backend.unavailable", `${tool} is not installed`, {
    details: { tool, lookedIn: path },
  })
}
