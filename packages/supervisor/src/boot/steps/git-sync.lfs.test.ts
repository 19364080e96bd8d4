import { createHash } from "node:crypto"
import { mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import { bench, run } from "../../repos/testing/upstream.ts"

const CONTENT = "a large file\n"
const ID = createHash("sha256").update(CONTENT).digest("hex")
const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${ID}\nsize ${CONTENT.length}\n`

/** Starts a storage of large files with one file in it. */
const storage = async (): Promise<string> => {
  const server = createServer((request, response) => {
    if (request.method === "GET") return void response.end(CONTENT)
    const download = { href: `${url}/file` }
    const objects = [{ oid: ID, size: CONTENT.length, actions: { download } }]
    response.setHeader("content-type", "application/vnd.git-lfs+json")
    request.resume().on("end", () => response.end(JSON.stringify({ transfer: "basic", objects })))
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return url
}

const repoWithLfs = async () => {
  const place = await bench()
  place.upstream("web", {
    ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    ".lfsconfig": `[lfs]\n\turl = ${await storage()}\n`,
    "large.bin": POINTER,
  })
  const source = { kind: "remote", url: place.server.url("web") } as const
  const file = () => readFileSync(join(place.workspace, "web", "large.bin"), "utf8")
  return { place, repos: [{ directory: "web", source }], file }
}

requires("gitLfs").it(
  "brings files from large file storage, and git takes them for unchanged",
  async () => {
    const { place, repos, file } = await repoWithLfs()
    const told = await place.sync({ repos })
    expect(told.warnings).toEqual([])
    expect(file()).toBe(CONTENT)
    expect(run(join(place.workspace, "web"), "status", "--short")).toBe("")
    expect((await place.sync({ repos, how: "update" })).facts.did).toEqual(["unchanged"])
  },
)

it("warns where git-lfs is not installed, and leaves pointers", async () => {
  const { place, repos, file } = await repoWithLfs()
  const programs = join(place.root, "bin")
  mkdirSync(programs)
  for (const name of ["git", "sh", "ls", "mkdir", "mv", "rm"])
    symlinkSync(`/usr/bin/${name}`, join(programs, name))
  const told = await place.sync({ repos, environment: { PATH: programs } })
  expect(told.warnings).toEqual([expect.stringContaining("git-lfs is not installed")])
  expect(file()).toBe(POINTER)
})
