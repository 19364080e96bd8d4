import { chmod, mkdir, mkdtemp, open, rm, symlink } from "node:fs/promises"
import { join } from "node:path"
import { run } from "@berth/host/run"
import { settleAll } from "@berth/host/settle-all"
import { BerthError } from "@berth/protocol/errors"
import { TTY_GROUP_ID } from "../accounts.ts"
import { MAX_TERMINALS } from "../terminals.ts"
import type { EngineMount } from "./engine/mount.ts"
import { bind, volumeMount } from "./mounts.ts"

/*
 * A /dev of the sandbox's own, for engines with user namespaces. Such an engine cannot make nodes in a container's /dev,
 * and binds the host's instead: a sandbox would see when they are opened, and lock them for everybody. An engine that is
 * given a /dev mounts nothing below it by itself: neither terminals nor shared memory.
 */

/** The harmless devices, which the engine gives to every container. */
const NODES = ["null", "zero", "full", "random", "urandom", "tty"].map((name) => `/dev/${name}`)

/** The links that programs expect in /dev, and where they lead. */
const LINKS = {
  fd: "/proc/self/fd",
  stdin: "/proc/self/fd/0",
  stdout: "/proc/self/fd/1",
  stderr: "/proc/self/fd/2",
  ptmx: "pts/ptmx",
}

/**
 * Fills a directory with the nodes and links of a sandbox's /dev. Removes first what an interrupted creation left
 * there.
 */
export const makeDevices = async (directory: string, signal: AbortSignal): Promise<void> => {
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory)
  const { status, stderr } = await run(["cp", "--archive", ...NODES, directory], { signal })
  if (status !== 0) {
    throw new BerthError("backend.engine_failed", "the nodes of /dev cannot be made", {
      details: { directory, systemSaid: stderr.trim() },
    })
  }
  await settleAll([
    ...Object.entries(LINKS).map(([name, target]) => symlink(target, join(directory, name))),
    mkdir(join(directory, "pts")),
    // The runtime gives a file system that it mounts there the mode of the directory below it.
    mkdir(join(directory, "shm")).then(() => chmod(join(directory, "shm"), 0o1777)),
    chmod(directory, 0o755),
  ])
}

/** Whether device nodes in the data directory can be opened. They cannot on a file system that is mounted `nodev`. */
export const holdsDevices = async (directory: string, signal: AbortSignal): Promise<boolean> => {
  const trial = await mkdtemp(join(directory, "devices-"))
  try {
    await makeDevices(join(trial, "dev"), signal)
    await (await open(join(trial, "dev/null"))).close()
    return true
  } catch {
    signal.throwIfAborted()
    return false
  } finally {
    await rm(trial, { recursive: true, force: true })
  }
}

/** The mounts of that directory as /dev, and of the volume with the sandbox's terminals. */
export const deviceMounts = (directory: string, terminals: string): EngineMount[] => [
  bind(directory, "/dev", true),
  volumeMount(terminals, "/dev/pts"),
]

/**
 * The options of the volume that holds a sandbox's own terminals (devpts).
 * @param idBase the host's id of the sandbox's user and group 0
 */
export const terminalOptions = (idBase: number): Readonly<Record<string, string>> => ({
  type: "devpts",
  device: "devpts",
  o: `nosuid,noexec,mode=620,ptmxmode=666,gid=${idBase + TTY_GROUP_ID},max=${MAX_TERMINALS}`,
})
