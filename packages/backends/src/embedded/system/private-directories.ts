import { chmodSync, chownSync, lstatSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { AGENT_USER } from "@berth/protocol/inside"
import { isWithin } from "../../within.ts"
import { AGENT_ID } from "../ids/range.ts"
import { descend } from "./descend.ts"
import { asBackendError } from "./files-error.ts"

export interface PrivateDirectories {
  /** The directory that appears as /workspace. */
  readonly workspace: string
  /** The directory that appears as /home. */
  readonly home: string
}

/**
 * Makes a sandbox's own directories: /workspace and the agent's home belong to the agent, /home to root inside.
 * Existing ones keep their owner. The mount points below them belong to the owner of the directory that they are made
 * in; made by the runtime, they would be root's, and an agent could not write beside them.
 */
export const makePrivateDirectories = (
  { workspace, home }: PrivateDirectories,
  { idBase, mountTargets }: { idBase: number; mountTargets: readonly string[] },
): void => {
  const agent = idBase + AGENT_ID
  try {
    makeOwned(workspace, agent, 0o755)
    makeOwned(home, idBase, 0o755)
    makeOwned(join(home, AGENT_USER.home.slice("/home".length)), agent, 0o700)
    for (const target of mountTargets) {
      if (isWithin(target, "/workspace")) makeMountPoint(workspace, "/workspace", target)
      if (isWithin(target, "/home")) makeMountPoint(home, "/home", target)
    }
  } catch (thrown) {
    throw asBackendError(thrown, "making the sandbox's own directories")
  }
}

const makeMountPoint = (source: string, place: string, target: string): void => {
  const path = target.slice(place.length)
  const found = descend(source, path)
  if (found.kind === "other") {
    // Files of an earlier sandbox must not lead a mount of this one elsewhere.
    throw new BerthError("input.invalid", `nothing can be mounted at ${target}`, {
      details: { path: "mounts", target, why: "something that is no directory is in the way" },
    })
  }
  let at = source
  for (const part of path.split("/").filter((part) => part !== "")) {
    const { uid } = lstatSync(at)
    at = join(at, part)
    makeOwned(at, uid, 0o755)
  }
}

const makeOwned = (path: string, owner: number, mode: number): void => {
  try {
    mkdirSync(path)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return
    throw thrown
  }
  // Sets the mode exactly, whatever the server's umask is.
  chmodSync(path, mode)
  chownSync(path, owner, owner)
}
