import { spawn } from "node:child_process"
import { once } from "node:events"
import { writeFile } from "node:fs/promises"
import type { Socket } from "node:net"
import { PLAIN_ENV } from "@berth/host/child"
import { BerthError } from "@berth/protocol/errors"
import { ID_COUNT } from "./range.ts"

/** A user namespace that a container can be created in. */
export interface UserNamespace {
  /** Valid until `release`; a process that has entered keeps the namespace. */
  readonly path: string
  release(): void
}

/** The ids of namespaces' owners lie in the upper half of a sandbox's range, where no user of a system is. */
const FIRST_OWNER = 32_768
const OWNERS = 32_000

export const openUserNamespaceMaker = () => {
  // The start is random: after a restart, no sandbox shares its owner with one that still runs in the same range.
  let next = Math.floor(Math.random() * OWNERS)
  return (idBase: number, signal: AbortSignal): Promise<UserNamespace> => {
    next = (next + 1) % OWNERS
    return makeUserNamespace(idBase, FIRST_OWNER + next, signal)
  }
}

/**
 * Makes a user namespace, as a user of its own. Resources that the kernel counts per user (instances of inotify,
 * message queues, pending signals) are counted inside and again for the namespace's maker: if that were the host's
 * root, one sandbox could use up what root, the server and every other sandbox have.
 */
const makeUserNamespace = async (
  idBase: number,
  ownerInside: number,
  signal: AbortSignal,
): Promise<UserNamespace> => {
  signal.throwIfAborted()
  const owner = `${idBase + ownerInside}`
  const holder = spawn(
    "setpriv",
    [
      ...["--reuid", owner, "--regid", owner, "--clear-groups"],
      // The shell ends with its input, and so with the server, whatever ends that.
      ...["unshare", "--user", "sh", "-c", "echo made; read -r _"],
    ],
    { cwd: "/", env: PLAIN_ENV, stdio: ["pipe", "pipe", "pipe"], signal, killSignal: "SIGKILL" },
  )
  // A failure to start is told by the exit, which is looked at below.
  holder.on("error", () => {})
  let complaints = ""
  holder.stderr.on("data", (chunk: Buffer) => {
    complaints += chunk.toString("utf8")
  })
  // A holder that waits to be taken does not keep the server alive.
  holder.unref()
  for (const pipe of [holder.stdin, holder.stdout, holder.stderr]) (pipe as Socket).unref()
  holder.stdin.on("error", () => {})
  const release = () => {
    holder.kill("SIGKILL")
  }
  const made = await Promise.race([
    once(holder.stdout, "data").then(() => true),
    once(holder, "close").then(() => false),
  ])
  signal.throwIfAborted()
  const { pid } = holder
  if (!made || pid === undefined) {
    throw new BerthError("backend.engine_failed", "no user namespace can be made", {
      details: { engineSaid: complaints.trim() },
    })
  }
  try {
    const map = `0 ${idBase} ${ID_COUNT}\n`
    await Promise.all(["uid_map", "gid_map"].map((file) => writeFile(`/proc/${pid}/${file}`, map)))
    return { path: `/proc/${pid}/ns/user`, release }
  } catch (failure) {
    release()
    throw failure
  }
}
