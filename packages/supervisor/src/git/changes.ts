import type { Readable } from "node:stream"
import type { GitChange, GitChanges } from "@berth/protocol/git"
import { MAX_GIT_FILES } from "@berth/protocol/git-limits"
import { toWire } from "../files/work/bytes.ts"
import { recordsOf } from "./records.ts"

/** Git's output lists first the status of each file, then the line counts of each, in the same order. */
export const COUNTED = ["--raw", "--numstat", "-z"]

const STATUS: Readonly<Record<string, GitChange["status"]>> = {
  A: "added",
  D: "deleted",
  M: "modified",
  R: "renamed",
  C: "copied",
  T: "retyped",
  U: "unmerged",
}

export const parseChanges = async (stdout: Readable): Promise<GitChanges> => {
  const files: GitChange[] = []
  let seen = 0
  let counted = 0
  const records = recordsOf(stdout)
  const next = async (): Promise<Buffer> => ((await records.next()).value as Buffer) ?? Buffer.of()
  for await (const record of records) {
    const text = record.toString("latin1")
    const raw = /^:(\d+) (\d+) \S+ \S+ ([A-Z])/.exec(text)
    if (raw !== null) {
      const [, oldMode = "", newMode = "", letter = ""] = raw
      const isMoved = letter === "R" || letter === "C"
      const from = isMoved ? { from: toWire(await next()) } : {}
      const path = toWire(await next())
      const status = STATUS[letter] ?? "modified"
      const lines = { binary: false, insertions: 0, deletions: 0 }
      if (seen++ < MAX_GIT_FILES) files.push({ path, ...from, status, oldMode, newMode, ...lines })
      continue
    }
    const [, insertions = "", deletions = "", path = ""] =
      /^(-|\d+)\t(-|\d+)\t(.*)$/s.exec(text) ?? []
    // For a moved file both names follow.
    if (path === "") for (const _ of ["from", "to"]) await next()
    const file = files[counted++]
    if (file === undefined) continue
    const binary = insertions === "-"
    const lines = { insertions: Number(insertions) || 0, deletions: Number(deletions) || 0 }
    files[counted - 1] = { ...file, binary, ...lines }
  }
  return { files, isCut: seen > MAX_GIT_FILES }
}
