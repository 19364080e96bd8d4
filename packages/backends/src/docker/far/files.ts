import { readdir, readFile } from "node:fs/promises"
import { basename, join } from "node:path"
import { settleAll } from "@berth/host/settle-all"
import { BerthError } from "@berth/protocol/errors"
import { AGENT_USER } from "@berth/protocol/inside"
import type { Mount, SandboxSpec } from "@berth/protocol/sandbox"
import type { Engine } from "../engine/engine.ts"
import type { EngineMount } from "../engine/mount.ts"
import {
  CACHE_LABEL,
  cacheVolume,
  INSTALLATION_LABEL,
  type Labels,
  SANDBOX_LABEL,
  STACK_LABEL,
  WORKSPACE_LABEL,
} from "../engine/names.ts"
import { ensureVolume, listVolumes, removeVolume } from "../engine/volumes.ts"
import { withShelf } from "./shelf.ts"
import { type TarEntry, tarOf } from "./tar.ts"
import type { FarToolboxes } from "./toolbox.ts"

/** A volume for files of a sandbox, with the mode and owner of its root directory. */
interface FarVolume extends Omit<TarEntry, "path"> {
  readonly name: string
  readonly labels: Labels
  /** The name of its directory in the shelf that fills it. */
  readonly shelf: string
  readonly target: string
  /** Whether the volume goes with the sandbox. The others belong to the workspace. */
  readonly own: boolean
}

const AGENT = AGENT_USER.uid

/** The names of the volumes that go with a sandbox. */
export const farVolumes = (spec: SandboxSpec): string[] =>
  volumesOf(spec)
    .filter(({ own }) => own)
    .map(({ name }) => name)

/** Makes the volumes of a sandbox and fills them with its first files. */
export const makeFarVolumes = async (
  engine: Engine,
  spec: SandboxSpec,
  image: string,
  signal: AbortSignal,
): Promise<void> => {
  const all = volumesOf(spec)
  const make = ({ name, labels }: FarVolume) =>
    ensureVolume(engine, { name, labels, options: {} }, signal)
  await settleAll(all.map(make))
  const archive = tarOf(await firstFiles(spec, all))
  const volumes = Object.fromEntries(all.map(({ shelf, name }) => [shelf, name]))
  const { installation } = spec.identity
  await withShelf(
    engine,
    { installation, image, volumes },
    ({ put }) => put(archive, signal),
    signal,
  )
}

/** Removes the volumes of a workspace's stacks. Fails if a container still has one of them. */
export const removeFarFiles = async (
  engine: Engine,
  { installation, workspace }: Pick<SandboxSpec["identity"], "installation" | "workspace">,
  signal: AbortSignal,
): Promise<void> => {
  const labels = [`${INSTALLATION_LABEL}=${installation}`, `${WORKSPACE_LABEL}=${workspace}`]
  const found = await listVolumes(engine, [...labels, STACK_LABEL], signal)
  await settleAll(found.map(({ Name }) => removeVolume(engine, Name, signal)))
}

/** All mounts of a sandbox whose engine sees no files of this host. */
export const farMounts = (spec: SandboxSpec, toolboxes: FarToolboxes): EngineMount[] => [
  ...volumesOf(spec).map(({ name, target }) => volumeMount(name, target, false)),
  ...spec.config.mounts.flatMap((mount, index) => {
    if (mount.kind !== "directory") return []
    const name = mount.readOnly ? toolboxes.volumeOf(mount.source) : undefined
    if (name !== undefined) return [volumeMount(name, mount.target, true)]
    throw new BerthError("backend.unsupported", "the engine does not see this host's directories", {
      details: { path: `mounts.${index}.source`, source: mount.source, supported: ["a toolbox"] },
    })
  }),
]

const volumeMount = (name: string, target: string, readOnly: boolean): EngineMount => ({
  Type: "volume",
  Source: name,
  Target: target,
  ReadOnly: readOnly,
  VolumeOptions: { NoCopy: true },
})

/** The volumes of a sandbox, with the same places, owners and modes that its files have on this host. */
const volumesOf = (spec: SandboxSpec): FarVolume[] => {
  const { sandbox, installation } = spec.identity
  const taken = new Set(spec.config.mounts.map(({ target }) => target))
  const labels = { [INSTALLATION_LABEL]: installation, [SANDBOX_LABEL]: sandbox }
  const ofSandbox = (shelf: string, target: string, mode: number, owner: number) => ({
    name: `berth-${sandbox}-${shelf}`,
    labels,
    shelf,
    target,
    mode,
    owner,
    own: true,
  })
  return [
    ...[ofSandbox("home", "/home", 0o755, 0), ofSandbox("workspace", "/workspace", 0o755, AGENT)],
    ...spec.config.mounts.flatMap((mount) =>
      mount.kind === "shared"
        ? [ofSandbox("shared", mount.target, 0o700, 0)]
        : ofWorkspace(mount, spec),
    ),
  ].filter(({ own, shelf, target }) => !own || shelf === "shared" || !taken.has(target))
}

/** The workspace's volume for a stack or a cache. The next sandbox finds in a stack's volume what this one leaves. */
const ofWorkspace = (mount: Mount, spec: SandboxSpec): FarVolume[] => {
  if (mount.kind !== "stack" && mount.kind !== "cache") return []
  const { installation, workspace } = spec.identity
  const { target } = mount
  const what = mount.kind === "cache" ? mount.cache : mount.stack
  return [
    {
      name:
        mount.kind === "cache"
          ? cacheVolume(installation, workspace, mount.cache)
          : `berth-${installation}-${workspace}-files-${mount.stack}`,
      labels: {
        [INSTALLATION_LABEL]: installation,
        [WORKSPACE_LABEL]: workspace,
        [mount.kind === "cache" ? CACHE_LABEL : STACK_LABEL]: what,
      },
      shelf: `${mount.kind}-${what}`,
      target,
      owner: AGENT,
      own: false,
      mode: target === AGENT_USER.home ? 0o700 : 0o755,
    },
  ]
}

const firstFiles = async (
  { sharedDirectory }: SandboxSpec,
  volumes: readonly FarVolume[],
): Promise<TarEntry[]> => {
  const entries: TarEntry[] = volumes.map(({ shelf: path, mode, owner }) => ({ path, mode, owner }))
  if (volumes.some(({ shelf }) => shelf === "home"))
    entries.push({ path: `home/${basename(AGENT_USER.home)}`, mode: 0o700, owner: AGENT })
  for (const name of sharedDirectory === undefined ? [] : await readdir(sharedDirectory)) {
    const contents = await readFile(join(sharedDirectory ?? "", name))
    entries.push({ path: `shared/${name}`, mode: 0o600, owner: 0, contents })
  }
  return entries
}
