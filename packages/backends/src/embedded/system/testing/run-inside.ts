import { randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Outcome, run } from "@berth/host/run"
import type { Bundle, BundleInput } from "../../bundle.ts"
import { bundleIn, type ConfigInput } from "./bundles.ts"

export type RuntimeName = "crun" | "runc"

/** crun refuses to work where it sees a cgroup2 mount beside v1 controllers. */
const HYBRID_MOUNT = "/sys/fs/cgroup/unified"
const WITHOUT_HYBRID_MOUNT = [
  "unshare",
  "--mount",
  "--propagation=slave",
  "sh",
  "-c",
  `umount ${HYBRID_MOUNT}; exec "$@"`,
  "sh",
] as const

const DEADLINE_MS = 20_000

/** A directory for sandboxes that run one command each, removed by `remove`. */
export interface Testbed {
  readonly directory: string
  readonly systems: string
  bundle(config: ConfigInput, input?: Partial<BundleInput>): Promise<Bundle>
  /** Runs a shell script inside, to its end. */
  inside(runtime: RuntimeName, script: string, config?: ConfigInput): Promise<Outcome>
  run(runtime: RuntimeName, bundle: Bundle): Promise<Outcome>
  /** Creates a container named `made` and does not start it; the runtime's state is kept in `root`. */
  create(runtime: RuntimeName, bundle: Bundle, root: string): Promise<void>
  destroy(runtime: RuntimeName, root: string): Promise<void>
  remove(): Promise<void>
}

/** Gives the runtime a pipe as standard input: crun makes its standard input the sandbox's own, even /dev/null. */
const commandLine = (
  runtime: RuntimeName,
  args: readonly string[],
): readonly [string, ...string[]] => {
  if (runtime === "runc") return ["runc", ...args]
  const crun = ["crun", "--cgroup-manager=disabled", ...args] as const
  return existsSync(HYBRID_MOUNT) ? [...WITHOUT_HYBRID_MOUNT, ...crun] : crun
}

export const openTestbed = async (): Promise<Testbed> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-system-"))
  const systems = join(directory, "systems")
  await chmod(directory, 0o711)
  const signal = new AbortController().signal

  const call = async (runtime: RuntimeName, ...args: readonly string[]): Promise<Outcome> =>
    run(commandLine(runtime, args), { signal, input: "", deadlineMs: DEADLINE_MS })

  const write = async ({ config }: Bundle): Promise<string> => {
    const place = join(directory, randomUUID())
    await mkdir(place)
    await writeFile(join(place, "config.json"), JSON.stringify(config))
    return place
  }

  const runBundle = async (runtime: RuntimeName, bundle: Bundle): Promise<Outcome> => {
    const root = join(directory, runtime)
    return call(runtime, "--root", root, "run", "--bundle", await write(bundle), randomUUID())
  }

  return {
    directory,
    systems,
    bundle: (config, input) => bundleIn({ directory, systems }, config, input),
    run: runBundle,
    create: async (runtime, bundle, root) => {
      const place = await write(bundle)
      // The container keeps its standard streams. They are files, so that nobody waits for their end.
      const create = commandLine(runtime, ["--root", root, "create", "--bundle", place, "made"])
      const apart = ["sh", "-c", ': > in; exec "$@" < in > out 2>&1', "sh", ...create] as const
      const { status } = await run(apart, { signal, cwd: place, deadlineMs: DEADLINE_MS })
      if (status !== 0) throw new Error(await readFile(join(place, "out"), "utf8"))
    },
    destroy: async (runtime, root) => {
      await call(runtime, "--root", root, "delete", "--force", "made")
    },
    inside: async (runtime, script, config = {}) =>
      runBundle(
        runtime,
        await bundleIn({ directory, systems }, { command: ["/bin/sh", "-c", script], ...config }),
      ),
    remove: () => rm(directory, { recursive: true, force: true }),
  }
}
