import { createHash, randomBytes } from "node:crypto"
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises"
import { homedir, hostname, tmpdir } from "node:os"
import { join } from "node:path"
import { SECRET_DIGITS } from "./attempt.ts"
import { MOUNTED_FILE, READ_ONLY_MOUNT, WRITABLE_MOUNT } from "./escapes/system.ts"
import type { ConfigInput } from "./sandboxes.ts"

export const newSecret = (whose: "host" | "server" | "neighbour"): string =>
  `${whose}-secret-${randomBytes(SECRET_DIGITS / 2).toString("hex")}`

/** Secrets and files of the host that a sandbox looks for, or could change. */
export interface Planted {
  readonly hostFiles: readonly string[]
  readonly hostShadow: string
  /** One directory, mounted twice: read-only and writable. */
  readonly mounts: NonNullable<ConfigInput["mounts"]>
  /** Reads the parts of the host that an escape would most likely have changed. */
  look(): Promise<Record<string, unknown>>
  remove(): Promise<void>
}

/** Puts secrets where a host has them: in root's own directory, beside others' files, in the server's data. */
export const plant = async (dataDirectory: string): Promise<Planted> => {
  const home = await mkdtemp(join(homedir(), ".isolation-"))
  const shared = await mkdtemp(join(tmpdir(), "isolation-"))
  const mounted = await makeOpenDirectory(join(shared, "open"))
  await chmod(shared, 0o755)
  const hostFiles = [home, shared, dataDirectory].map((directory) => join(directory, "key"))
  for (const file of hostFiles) await writeFile(file, newSecret("host"), { mode: 0o600 })
  return {
    hostFiles,
    hostShadow: createHash("sha256")
      .update(await readFile("/etc/shadow"))
      .digest("hex"),
    mounts: [
      { kind: "directory", source: mounted, target: READ_ONLY_MOUNT, readOnly: true },
      { kind: "directory", source: mounted, target: WRITABLE_MOUNT },
    ],
    look: () => lookAtHost(mounted),
    async remove() {
      for (const directory of [home, shared]) await rm(directory, { recursive: true, force: true })
      await rm(join(dataDirectory, "key"), { force: true })
    },
  }
}

/** Makes a directory that everybody may write to: only the mount's flag is in the way. */
const makeOpenDirectory = async (directory: string): Promise<string> => {
  const file = join(directory, MOUNTED_FILE)
  await mkdir(directory)
  await chmod(directory, 0o777)
  await writeFile(file, "unchanged")
  await chmod(file, 0o666)
  return directory
}

const DEVICES = ["null", "zero", "full", "random", "urandom", "tty"]

const lookAtHost = async (mounted: string): Promise<Record<string, unknown>> => {
  const paths = [...DEVICES.map((name) => `/dev/${name}`), join(mounted, MOUNTED_FILE)]
  return {
    owners: await Promise.all(
      paths.map(async (path) => {
        const { mode, uid, gid } = await stat(path)
        return { path, mode, uid, gid }
      }),
    ),
    mounted: await readFile(join(mounted, MOUNTED_FILE), "utf8"),
    hostname: hostname(),
    corePattern: await readFile("/proc/sys/kernel/core_pattern", "utf8"),
  }
}
