import { type InstallationId, newId, Slug } from "@berth/protocol/ids"
import { SandboxConfig, type SandboxSpec } from "@berth/protocol/sandbox"
import type { z } from "zod"
import { configHash } from "../../config-hash.ts"

/** A sandbox on the host's system that runs until it is stopped, unless the config says otherwise. */
export const specFor = (
  installation: InstallationId,
  overrides: Partial<z.input<typeof SandboxConfig>> = {},
): SandboxSpec => {
  const config = SandboxConfig.parse({
    system: { kind: "host" },
    command: ["/bin/sh", "-c", "echo up; exec sleep 1000"],
    ...overrides,
  })
  const identity = {
    installation,
    workspace: Slug.parse("test"),
    sandbox: newId.sandbox(),
    configHash: configHash(config),
  }
  return { identity, config }
}
