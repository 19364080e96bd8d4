import { describe, expect, it } from "vitest"
import { COMFORTABLE_BYTES, COMFORTABLE_INODES, judge, LEAST_BYTES } from "./disk.ts"

const PLENTY = {
  dataDir: "/data/berth",
  directory: "/data/berth",
  writable: true,
  freeBytes: COMFORTABLE_BYTES,
  freeInodes: COMFORTABLE_INODES,
}

describe("the verdict on disk space", () => {
  it.each([
    ["plenty", PLENTY, "ok", "10.0 GiB free for /data/berth"],
    [
      "a directory that is not made yet",
      { ...PLENTY, directory: "/data" },
      "ok",
      "10.0 GiB free for /data/berth (not made yet)",
    ],
    ["little", { ...PLENTY, freeBytes: COMFORTABLE_BYTES - 1 }, "degraded", "GiB free"],
    ["next to nothing", { ...PLENTY, freeBytes: LEAST_BYTES - 1 }, "missing", "1.0 GiB free"],
    ["few inodes", { ...PLENTY, freeInodes: 12 }, "degraded", "only 12 inodes"],
    ["inodes on demand", { ...PLENTY, freeInodes: Number.POSITIVE_INFINITY }, "ok", "GiB free"],
    ["no right to write", { ...PLENTY, writable: false }, "missing", "/data/berth is not writable"],
  ])("has a status and a reason for %s", (_, space, status, found) => {
    const finding = judge(space)
    expect(finding.status).toBe(status)
    expect(finding.found).toContain(found)
  })
})
