import { chmodSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { asBackendError } from "./files-error.ts"
import type { SANDBOX_FILE_NAMES } from "./tree.ts"

export interface SandboxFiles {
  readonly hostname: string
  /** The name servers; none without a network. */
  readonly nameservers: readonly string[]
}

/** Writes the files of /etc that differ between sandboxes, readable inside whatever the server's umask is. */
export const writeSandboxFiles = (
  directory: string,
  { hostname, nameservers }: SandboxFiles,
): void => {
  const contents: Record<(typeof SANDBOX_FILE_NAMES)[number], string> = {
    hostname: `${hostname}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 ${hostname}\n`,
    "resolv.conf": nameservers.map((server) => `nameserver ${server}\n`).join(""),
  }
  try {
    mkdirSync(directory, { recursive: true })
    chmodSync(directory, 0o755)
    for (const [name, content] of Object.entries(contents)) {
      const path = join(directory, name)
      writeFileSync(path, content)
      chmodSync(path, 0o644)
    }
  } catch (thrown) {
    throw asBackendError(thrown, "writing the sandbox's files")
  }
}
