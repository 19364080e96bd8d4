import {
  chmod,
  copyFile,
  lstat,
  lutimes,
  mkdir,
  opendir,
  readlink,
  symlink,
} from "node:fs/promises"
import { joinBytes, toWire } from "./bytes.ts"
import { kindOf } from "./entry.ts"
import { wrongKind } from "./failure.ts"

/** Copies a file, link or directory with modes and times to a path where nothing is. Stops when the signal fires. */
export const copyTree = async (
  source: Buffer,
  target: Buffer,
  signal: AbortSignal,
): Promise<void> => {
  signal.throwIfAborted()
  const found = await lstat(source)
  const kind = kindOf(found)
  if (kind === "link") await symlink(await readlink(source, { encoding: "buffer" }), target)
  else if (kind === "file") await copyFile(source, target)
  else if (kind === "directory") {
    await mkdir(target, { mode: 0o700 })
    // @types/node knows names as text only.
    const names = await opendir(source as unknown as string, { encoding: "buffer" as never })
    for await (const entry of names) {
      const name = entry.name as unknown as Buffer
      await copyTree(joinBytes(source, name), joinBytes(target, name), signal)
    }
  } else throw wrongKind(toWire(source), "pipe, socket or device", "file, directory or link")
  if (kind !== "link") await chmod(target, found.mode & 0o7777)
  await lutimes(target, found.atime, found.mtime)
}
