import { join } from "node:path"
import type { SandboxId } from "@berth/protocol/ids"

/** The paths of one sandbox's files. All paths come from a validated id. */
export interface SandboxPaths {
  readonly directory: string
  readonly state: string
  readonly bundle: string
  /** The table of mounts that are made for the runtime before it creates the container. */
  readonly mounts: string
  /** The directory in which the stacks of layers are mounted for the runtime alone. */
  readonly stacks: string
  readonly etc: string
  readonly home: string
  readonly workspace: string
  readonly log: string
  readonly initPid: string
  readonly monitorPid: string
  readonly exit: string
}

/** The directories of one installation's sandboxes. */
export interface StatePlaces {
  readonly sandboxes: string
  readonly exits: string
  readonly runtimeRoot: string
  readonly sockets: string
  /** Directories of sandboxes whose state is damaged, as they were found. */
  readonly damaged: string
}

export const placesIn = (root: string): StatePlaces => ({
  sandboxes: join(root, "sandboxes"),
  exits: join(root, "exits"),
  runtimeRoot: join(root, "runtime"),
  sockets: join(root, "sockets"),
  damaged: join(root, "damaged"),
})

export const pathsOf = ({ sandboxes, exits }: StatePlaces, sandbox: SandboxId): SandboxPaths => {
  const directory = join(sandboxes, sandbox)
  const inside = (name: string) => join(directory, name)
  return {
    directory,
    state: inside("state.json"),
    bundle: inside("bundle"),
    mounts: inside("mounts"),
    stacks: inside("stacks"),
    etc: inside("etc"),
    home: inside("home"),
    workspace: inside("workspace"),
    log: inside("log"),
    initPid: inside("init.pid"),
    monitorPid: inside("monitor.pid"),
    exit: join(exits, sandbox),
  }
}
