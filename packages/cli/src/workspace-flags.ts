import { realpathSync } from "node:fs"
import { basename } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { Slug } from "@berth/protocol/ids"
import { WorkspaceLimits } from "@berth/protocol/limits"
import { MAX_HOST_PORTS } from "@berth/protocol/port-limits"
import { Size, sizeBytes } from "@berth/protocol/size"
import {
  AgentSpec,
  HostPort,
  ImageReference,
  type WorkspaceSpec,
  type WorkspaceSpecInput,
} from "@berth/protocol/workspace"
import type { Command } from "commander"
import { addVariableFlags, collect, variablesOf } from "./variables.ts"

/** The given flags that describe a workspace. */
export interface WorkspaceFlags {
  readonly agent?: string
  readonly model?: string
  readonly key?: readonly string[]
  readonly permissions?: string
  readonly image?: string
  readonly network?: string
  readonly hostPort?: readonly string[]
  readonly disk?: string
  readonly memory?: string
  readonly cpus?: string
  readonly pids?: string
  readonly env?: readonly string[]
  readonly envFile?: readonly string[]
}

export const addWorkspaceFlags = (command: Command): Command => {
  command
    .option(
      "--agent <kind[:command]>",
      "shell, opencode, claude, codex, or acp:COMMAND; default: shell",
    )
    .option("--model <model>", "of claude and codex, by its name; of opencode, as provider/model")
    .option(
      "--key <name>",
      "a key of the server's that the agent gets, can be given often",
      collect,
    )
    .option(
      "--permissions <policy>",
      "what the agent may do: allow all, ask before each act, or deny them; default: allow",
    )
    .option("--image <image>", "what its system comes from, where the backend takes images")
    .option("--network <policy>", "open or none; default: open")
    .option(
      "--host-port <port>",
      "a port of the server's machine that 127.0.0.1 inside leads to, such as 11434; can be given often",
      collect,
    )
    .option("--memory <size>", "the most memory that it may use, such as 8G; default: 4 GiB")
    .option("--cpus <number>", "the most processor time that it may use, in cores; default: 2")
    .option("--pids <number>", "the most processes and threads that it may have; default: 2048")
    .option("--disk <size>", "the most that its files may take, such as 20G; then it is halted")
  return addVariableFlags(command, "of what runs inside")
}

/** Separates the flags from a command's other options. */
export const workspaceFlags = <Options extends WorkspaceFlags>(options: Options) => {
  const { agent, model, key, permissions, image, network, env, envFile, ...rest } = options
  const { hostPort, disk, memory, cpus, pids, ...others } = rest
  const limits = { disk, memory, cpus, pids }
  const ofAgent = { agent, model, key, permissions }
  const given = { ...ofAgent, image, network, hostPort, ...limits, env, envFile }
  const flags: WorkspaceFlags = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  )
  return { flags, others }
}

/** The description of a workspace by flags alone: what is not given stays as it is, or has its default. */
export const describedBy = (
  flags: WorkspaceFlags,
  known?: WorkspaceSpec,
): Omit<WorkspaceSpecInput, "slug"> => {
  const { image, network, hostPort, env, envFile, agent, model, key, permissions } = flags
  const ofAgent = [agent, model, key, permissions]
  const limits = limitsOf(flags)
  if (network !== undefined && network !== "open" && network !== "none")
    throw new BerthError("input.usage", `--network is open or none, not ${network}`)
  if (image !== undefined && !ImageReference.safeParse(image).success)
    throw new BerthError("input.usage", `--image is an image's name, not ${image}`)
  return {
    ...(image !== undefined && { system: { kind: "image", reference: image } }),
    ...((env ?? envFile) !== undefined && {
      environment: { ...known?.environment, ...variablesOf({ env, envFile }, process.env) },
    }),
    ...(network !== undefined && { network: { kind: network } }),
    ...(hostPort !== undefined && { hostPorts: hostPortsOf(hostPort) }),
    ...(Object.keys(limits).length > 0 && { limits: { ...known?.limits, ...limits } }),
    ...(ofAgent.some((flag) => flag !== undefined) && { agent: agentOf(flags, known?.agent) }),
  }
}

const hostPortsOf = (given: readonly string[]): HostPort[] => {
  const ports = given.map((text) => {
    const port = HostPort.safeParse(Number(text))
    if (port.success) return port.data
    throw new BerthError("input.usage", `--host-port is a port from 1024 to 65535, not ${text}`)
  })
  const different = [...new Set(ports)]
  if (different.length <= MAX_HOST_PORTS) return different
  throw new BerthError("input.usage", `--host-port can be given ${MAX_HOST_PORTS} times at most`)
}

/** The limits that flags name, each checked by itself, so that a refusal names its flag. */
const limitsOf = ({
  disk,
  memory,
  cpus,
  pids,
}: Pick<WorkspaceFlags, "disk" | "memory" | "cpus" | "pids">): Partial<WorkspaceLimits> => ({
  ...(memory !== undefined && {
    memoryBytes: limitOf(
      "memoryBytes",
      bytesOf(memory),
      `--memory is a size from 34M on, such as 8G, not ${memory}`,
    ),
  }),
  ...(cpus !== undefined && {
    cpus: limitOf("cpus", Number(cpus), `--cpus is a number of cores, such as 1.5, not ${cpus}`),
  }),
  ...(pids !== undefined && {
    pids: limitOf("pids", Number(pids), `--pids is a whole number from 16 on, not ${pids}`),
  }),
  ...(disk !== undefined && {
    diskBytes: limitOf(
      "diskBytes",
      bytesOf(disk),
      `--disk is a size from 16M on, such as 20G, not ${disk}`,
    ),
  }),
})

const bytesOf = (text: string): number => {
  const size = Size.safeParse(text)
  return size.success ? sizeBytes(size.data) : Number.NaN
}

const limitOf = (name: keyof WorkspaceLimits, value: number, refusal: string): number => {
  if (WorkspaceLimits.shape[name].safeParse(value).success) return value
  throw new BerthError("input.usage", refusal)
}

const agentOf = (
  { agent, model, key, permissions }: WorkspaceFlags,
  known: AgentSpec = { kind: "shell", keys: [] },
): AgentSpec => {
  const [kind, ...rest] = agent?.split(":") ?? []
  const command = rest.join(":").split(/\s+/).filter(Boolean)
  const parsed = AgentSpec.safeParse({
    ...(agent === undefined ? known : { kind, ...(rest.length > 0 && { command }) }),
    ...(model !== undefined && { model }),
    ...(key !== undefined && { keys: key }),
    ...(permissions !== undefined && { permissions }),
  })
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const others = issue?.code === "unrecognized_keys" ? issue.keys : []
  if (issue?.path[0] === "kind" || issue?.path[0] === "command" || others.includes("command"))
    throw new BerthError(
      "input.usage",
      `--agent is shell, opencode, claude, codex or acp:COMMAND, not ${agent}`,
    )
  if (others.length > 0) {
    const flags = others.map((name) => `--${name}`).join(" and ")
    const way = agent === undefined ? "; name another with --agent" : ""
    const message = `${flags} ${others.length === 1 ? "is" : "are"} not for the agent ${agent ?? known.kind}${way}`
    throw new BerthError("input.usage", message)
  }
  const where = issue?.path.join(".") || agent || known.kind
  throw new BerthError(
    "input.usage",
    `the agent's settings are invalid: ${where}: ${issue?.message}`,
  )
}

/** A repo as the server takes it: its URL, or its path on this machine. */
export const urlOf = (repo: string): string => (isUrl(repo) ? repo : pathOf(repo))

/** Whether the repo is a URL, including `host:path`, which git takes for ssh. */
const isUrl = (repo: string): boolean => /^[a-z+]+:\/\/|^[^/]+:/i.test(repo)

const pathOf = (repo: string): string => {
  try {
    return realpathSync(repo)
  } catch (cause) {
    throw new BerthError("input.usage", `there is no ${repo}`, { cause })
  }
}

/** The name of a workspace; default: that of its repo. */
export const slugOf = (
  name: string | undefined,
  url: string | undefined,
  flag = "--name",
): Slug => {
  const parsed = Slug.safeParse(name ?? slugify(url === undefined ? "" : basename(url, ".git")))
  if (parsed.success) return parsed.data
  throw new BerthError("input.usage", `${flag} ${parsed.error.issues[0]?.message}`)
}

const slugify = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^[^a-z]+|-+$/g, "")
    .slice(0, 63) || "sandbox"
