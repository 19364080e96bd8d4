import { execFileSync } from "node:child_process"
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { openReserve } from "@berth/host/reserve"
import { createLogger } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import type { BackendChoice } from "@berth/server/open-backend"
import { openRescue } from "@berth/server/sandboxes/disk/rescue"
import { openStandalone } from "@berth/server/standalone"
import { buildToolbox } from "../toolboxes/build.ts"

/** Opens a backend for real sandboxes with the supervisor as it is built. */
export const setStage = async (
  signal: AbortSignal,
  backend?: BackendChoice,
  { directory = tmpdir(), hasReserve = false } = {},
) => {
  const base = mkdtempSync(join(directory, "berth-boot-e2e-"))
  // Sandboxes have their toolbox from here, and their users have no rights outside.
  chmodSync(base, 0o711)
  const dataDir = join(base, "data")
  mkdirSync(dataDir, { mode: 0o711 })
  const toolbox = await buildToolbox("small", join(dataDir, "toolbox"), signal)
  const lines: string[] = []
  const secrets = new Secrets()
  const destination = { write: (line: string) => void lines.push(line) }
  const log = await createLogger({ level: "debug", pretty: false, secrets, destination })
  const reserve = openReserve(dataDir)
  const rescue = openRescue({ dataDir, reserve, log })
  const standalone = await openStandalone(
    {
      dataDir,
      shared: join(dataDir, "shared"),
      ...(backend && { backend }),
      toolbox,
      log,
      secrets,
      ...(hasReserve && { disk: { dataDir, reserve, rescue } }),
      environment: { PATH: process.env.PATH, HOME: base },
    },
    signal,
  )
  const close = async () => {
    await standalone.close()
    rmSync(base, { recursive: true, force: true })
  }
  return { base, dataDir, standalone, reserve, lines, close }
}

/** Makes a repo of the host. */
export const makeRepo = (path: string, files: Readonly<Record<string, string>>): string => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), text, { mode: 0o755 })
  }
  const who = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
  for (const args of [
    ["init", "-qb", "main"],
    ["add", "."],
    [...who, "commit", "-qm", "first"],
  ])
    execFileSync("git", ["-C", path, ...args])
  return path
}

/** The processes of a sandbox on any backend, as the host sees them: those whose mounts have its shared directory. */
export const processesOf = (sandbox: string): { pid: number; command: string }[] => {
  const namespaces = new Map<string, boolean>()
  const isInside = (pid: string): boolean => {
    const namespace = readlinkSync(`/proc/${pid}/ns/mnt`)
    const known =
      namespaces.get(namespace) ??
      readFileSync(`/proc/${pid}/mountinfo`, "utf8").includes(`/shared/${sandbox}/`)
    namespaces.set(namespace, known)
    return known
  }
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        if (!isInside(name)) return []
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim()
        return [{ pid: Number(name), command }]
      } catch {
        return []
      }
    })
}
