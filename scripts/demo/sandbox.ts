import { join } from "node:path"
import { performance } from "node:perf_hooks"
import { newId, Slug } from "@berth/protocol/ids"
import { SandboxConfig } from "@berth/protocol/sandbox"
import { openEmbedded } from "@berth/server/backends/embedded/backend"
import { configHash } from "@berth/server/sandboxes/config-hash"

const COMMAND = `echo "I am $(id -un) of $(hostname), process $$ of $(ls -d /proc/[0-9]* | wc -l)"
echo "the host's files: $(cat /etc/shadow 2>&1)"
echo "the network: $(ls /sys/class/net | tr '\\n' ' ')"`

/** Boots a sandbox, runs a command in it, and removes it; gives what the command said and how long it took. */
export const bootSandbox = async (parent: string, signal: AbortSignal): Promise<string> => {
  const directory = join(parent, "embedded")
  const installation = newId.installation()
  const backend = await openEmbedded({ installation, directory }, { signal })
  await backend.recover({ signal })
  const config = SandboxConfig.parse({
    system: { kind: "host" },
    command: ["/bin/sh", "-c", COMMAND],
  })
  const sandbox = newId.sandbox()
  const identity = {
    installation,
    workspace: Slug.parse("demo"),
    sandbox,
    configHash: configHash(config),
  }
  const ended = new AbortController()
  const events = backend.watch(AbortSignal.any([signal, ended.signal]))
  const startedMs = performance.now()
  try {
    await backend.create({ identity, config }, { signal })
    await backend.start(sandbox, { signal })
    for await (const event of events) if (event.kind === "exited") break
    const tookMs = Math.round(performance.now() - startedMs)
    const output = await backend.logs(sandbox, { signal })
    return `${output}created, run and ended in ${tookMs} ms`
  } finally {
    ended.abort()
    await backend.remove(sandbox)
    await backend.close()
  }
}
