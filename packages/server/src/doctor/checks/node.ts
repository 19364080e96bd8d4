import type { DoctorFinding } from "@berth/protocol/doctor"
import type { Check } from "../tools/check.ts"

/** The version Berth is built and tested on. */
const WANTED_MAJOR = 24

export const node: Check = {
  name: "node",
  why: "The server runs on it, and its database driver has no prebuilt binary for older versions.",
  probe: async () => judge(process.versions.node, process.execPath),
}

export const judge = (version: string, file: string): DoctorFinding => {
  const found = `node ${version} (${file})`
  const details = { version, file }
  if (Number.parseInt(version, 10) >= WANTED_MAJOR) return { status: "ok", found, details }
  return { status: "degraded", found, fix: "start Berth with its own launcher: bin/berth", details }
}
