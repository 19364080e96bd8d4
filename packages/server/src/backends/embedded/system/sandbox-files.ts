import { chmod, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { asBackendError } from "../files-error.ts"
import type { SANDBOX_FILE_NAMES } from "./tree.ts"

export interface SandboxFiles {
  readonly hostname: string
  /** Servers that names are asked of; none without a network. */
  readonly nameservers: readonly string[]
}

/** Writes the files of /etc that differ between sandboxes, readable inside whatever the server's umask is. */
export const writeSandboxFiles = async (
  directory: string,
  { hostname, nameservers }: SandboxFiles,
): Promise<void> => {
  const contents: Record<(typeof SANDBOX_FILE_NAMES)[number], string> = {
    hostname: `${hostname}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 ${hostname}\n`,
    "resolv.conf": nameservers.map((server) => `nameserver ${server}\n`).join(""),
  }
  try {
    await mkdir(directory, { recursive: true })
    await chmod(directory, 0o755)
    await Promise.all(
      Object.entries(contents).map(async ([name, content]) => {
        const path = join(directory, name)
        await writeFile(path, content)
        await chmod(path, 0o644)
      }),
    )
  } catch (thrown) {
    throw asBackendError(thrown, "writing the sandbox's files")
  }
}
