import { randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { SandboxSpec } from "@berth/protocol/sandbox"
import type { z } from "zod"
import { type Bundle, type BundleInput, makeBundle } from "../../bundle.ts"
import { resolveMounts } from "../mount-sources.ts"
import { prepareSystem } from "../prepare.ts"
import { makePrivateDirectories } from "../private-directories.ts"
import { writeSandboxFiles } from "../sandbox-files.ts"

export const ID_BASE = 0x7001_0000

export type ConfigInput = Partial<z.input<typeof SandboxSpec>["config"]>

interface Place {
  /** The directory for the files of sandboxes. */
  readonly directory: string
  /** The directory for prepared system trees. */
  readonly systems: string
}

/** Makes the bundle of a sandbox, with its directories, below the test's own. */
export const bundleIn = async (
  { directory, systems }: Place,
  config: ConfigInput,
  input: Partial<BundleInput> = {},
): Promise<Bundle> => {
  const { signal } = new AbortController()
  const spec = SandboxSpec.parse({
    identity: {
      installation: newId.installation(),
      workspace: "test",
      sandbox: newId.sandbox(),
      configHash: "0".repeat(64),
    },
    config: { system: { kind: "host" }, command: ["true"], ...config },
  })
  const own = join(directory, randomUUID())
  const directories = { workspace: join(own, "workspace"), home: join(own, "home") }
  const files = { etc: join(own, "etc") }
  await mkdir(own)
  const mounts = await resolveMounts({
    mounts: spec.config.mounts,
    cachePath: (cache) => join(directory, "caches", cache),
    stackPath: (stack) => `/stacks/${stack}`,
    sharedDirectory: undefined,
    keepOut: [systems],
  })
  const mountTargets = mounts.map(({ target }) => target)
  const identity = spec.config.system
  const init = existsSync("/usr/bin/tini-static") ? "/usr/bin/tini-static" : "/usr/bin/tini"
  const system = await prepareSystem({ identity, directory: systems, init, mountTargets }, signal)
  makePrivateDirectories(directories, { idBase: ID_BASE, mountTargets })
  writeSandboxFiles(files.etc, { hostname: "inside", nameservers: ["192.0.2.1"] })
  return makeBundle({
    spec,
    system,
    mounts,
    directories,
    files,
    idBase: ID_BASE,
    cgroupPath: `/berth-test-${randomUUID()}`,
    hostname: "inside",
    architecture: process.arch === "arm64" ? "arm64" : "x64",
    maxOpenFiles: 1024,
    ...input,
  })
}
