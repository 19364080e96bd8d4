import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { writeFile } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { PLAIN_ENV } from "../../host/run.ts"
import { ID_COUNT } from "./id-range.ts"

/** A user namespace that a container can be created in. */
export interface UserNamespace {
  /** Valid until `release`; whoever has entered keeps the namespace. */
  readonly path: string
  release(): void
}

/** The ids that own namespaces lie in the upper half of an installation's range, where no user of a system is. */
const FIRST_OWNER = 32_768
const OWNERS = 32_000

/**
 * Makes the sandbox's user namespace, as a user of its own. What the kernel counts per user (instances of
 * inotify, message queues, pending signals) is counted inside and again for whoever made the namespace: made by
 * the host's root, one sandbox could use up what root, the server and every other sandbox have.
 */
export const makeUserNamespace = async (
  { sandbox, idBase }: { sandbox: SandboxId; idBase: number },
  signal: AbortSignal,
): Promise<UserNamespace> => {
  signal.throwIfAborted()
  const owner = `${idBase + ownerOf(sandbox)}`
  const holder = spawn(
    "setpriv",
    [
      ...["--reuid", owner, "--regid", owner, "--clear-groups"],
      // It ends with its input, and so with the server, whatever ends that.
      ...["unshare", "--user", "sh", "-c", "echo made; read -r _"],
    ],
    { cwd: "/", env: PLAIN_ENV, stdio: ["pipe", "pipe", "pipe"], signal, killSignal: "SIGKILL" },
  )
  let complaints = ""
  holder.stderr.on("data", (chunk: Buffer) => {
    complaints += chunk.toString("utf8")
  })
  // Said by the exit, which is looked at below.
  holder.on("error", () => {})
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
      details: { sandbox, engineSaid: complaints.trim() },
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

/** Two of a thousand sandboxes may share an owner: then they share what the kernel counts, and nothing else. */
const ownerOf = (sandbox: SandboxId): number =>
  FIRST_OWNER + (createHash("sha256").update(sandbox).digest().readUInt32BE(0) % OWNERS)
