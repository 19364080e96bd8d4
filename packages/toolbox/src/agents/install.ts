import { mkdir, readdir, rename, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { findTool } from "@berth/host/find-tool"
import { removeTree } from "@berth/host/remove-tree"
import { run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"
import { findPackage } from "../inputs/packages.ts"
import { namesIn } from "../layout.ts"
import { isAlive, ownName } from "../owner.ts"
import type { OnProgress } from "../progress.ts"
import type { AgentPin } from "./pin.ts"

/** Enough for some hundred megabytes over the network. */
const INSTALL_DEADLINE_MS = 15 * 60_000

const LOOK_EVERY_MS = 1_000

/** npm checks packages against the hashes of the lock, and runs nothing of them during the installation. */
const NPM_CI = ["ci", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund"] as const

export interface InstallPlace {
  /** The directory of installed agents, each in a directory `NAME-DIGEST`. */
  readonly root: string
  /** A directory of Berth: packages of its own installation are not installed again. */
  readonly from: string
}

export interface InstallCall {
  readonly signal: AbortSignal
  readonly onProgress: OnProgress
  /** The server's own environment: npm takes its registry, proxy and certificates from it. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** A directory from which the agent's packages are found as Node finds them; undefined if they are not installed. */
export const findAgent = async (
  pin: AgentPin,
  { root, from }: InstallPlace,
): Promise<string | undefined> => {
  for (const place of [from, placeOf(pin, root)])
    if ((await findPackage(pin.adapter, place))?.version === pin.version) return place
  return undefined
}

/** Installs an agent with npm, aside, and gives it its name when it is complete. Removes the packages of older pins. */
export const installAgent = async (
  pin: AgentPin,
  { root }: InstallPlace,
  call: InstallCall,
): Promise<string> => {
  const { signal, environment } = call
  const npm = await findTool("npm", environment.PATH ?? "")
  if (npm === undefined) throw failed(pin, "npm is not on the PATH of the server", {})
  await sweep(root)
  const [place, aside] = [placeOf(pin, root), join(root, `incoming-${ownName()}-${unique()}`)]
  try {
    await mkdir(aside, { recursive: true, mode: 0o700 })
    await writeFile(join(aside, "package.json"), pin.manifest)
    await writeFile(join(aside, "package-lock.json"), pin.lock)
    await withProgress(pin, aside, call, async () => {
      const options = {
        signal,
        cwd: aside,
        deadlineMs: INSTALL_DEADLINE_MS,
        env: npmEnvironment(environment),
      }
      const { status, stderr } = await run([npm, ...NPM_CI], options)
      if (status !== 0) throw failed(pin, lastWords(stderr), { said: stderr.slice(-2_000) })
    })
    if ((await findPackage(pin.adapter, aside))?.version !== pin.version)
      throw failed(pin, `npm installed no ${pin.adapter} ${pin.version}`, {})
    await rename(aside, place).catch(async (thrown) => {
      // Another process was faster, with the same packages.
      if (!(await isThere(place))) throw thrown
    })
  } finally {
    await removeTree(aside)
  }
  await removeOthers(pin, root)
  return place
}

const placeOf = ({ agent, digest }: AgentPin, root: string): string =>
  join(root, `${agent}-${digest}`)

const unique = (): string => crypto.randomUUID().slice(0, 8)

const isThere = async (path: string): Promise<boolean> =>
  await stat(path).then(
    () => true,
    () => false,
  )

/** The variables that configure npm, beside files in the home. */
const npmEnvironment = (own: InstallCall["environment"]): Record<string, string> =>
  Object.fromEntries(
    Object.entries(own).flatMap(([name, value]) =>
      value !== undefined &&
      /^(PATH|HOME|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|npm_config_.*|(https?|no|all)_proxy)$/i.test(
        name,
      )
        ? [[name, value]]
        : [],
    ),
  )

/** Removes the packages of other pins: they are of no use any more, since toolboxes have copies. */
const removeOthers = async ({ agent, digest }: AgentPin, root: string): Promise<void> => {
  for (const name of await namesIn(root))
    if (name.startsWith(`${agent}-`) && name !== `${agent}-${digest}`)
      await removeTree(join(root, name))
}

/** Deletes half-made installations of processes that died. */
const sweep = async (root: string): Promise<void> => {
  for (const name of await namesIn(root)) {
    const owner = /^incoming-(.+)-[0-9a-f]{8}$/.exec(name)?.[1]
    if (owner !== undefined && !isAlive(owner)) await removeTree(join(root, name))
  }
}

/** Reports progress by the size of the directory: npm itself does not say how far it is. */
const withProgress = async (
  { agent, bytes: bytesTotal }: AgentPin,
  directory: string,
  { onProgress }: InstallCall,
  work: () => Promise<void>,
): Promise<void> => {
  const tell = async () => {
    const bytesDone = Math.min(await bytesIn(directory), bytesTotal)
    onProgress({ step: "installing", entry: agent, bytesDone, bytesTotal })
  }
  await tell()
  const telling = setInterval(() => void tell().catch(() => {}), LOOK_EVERY_MS)
  try {
    await work()
  } finally {
    clearInterval(telling)
  }
}

const bytesIn = async (directory: string): Promise<number> => {
  let bytes = 0
  for (const entry of await readdir(directory, { withFileTypes: true, recursive: true }))
    if (entry.isFile())
      bytes += await stat(join(entry.parentPath, entry.name)).then(
        ({ size }) => size,
        () => 0,
      )
  return bytes
}

/** The line in which npm says why it failed. */
const lastWords = (stderr: string): string => {
  const lines = stderr.split("\n").filter((line) => /^npm (error|ERR!) /.test(line))
  const words = lines.map((line) => line.replace(/^npm (error|ERR!) /, "").trim())
  return (
    words.find((line) => line !== "" && !/^(code|syscall|errno|path|cwd) /.test(line)) ??
    words[0] ??
    "npm failed"
  )
}

const failed = ({ agent, adapter, version }: AgentPin, why: string, details: object): BerthError =>
  new BerthError("toolbox.agent_not_installed", `${agent} could not be installed: ${why}`, {
    details: { agent, package: `${adapter}@${version}`, ...details },
  })
