import { execFile, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { promisify } from "node:util"
import { git, makeRepo } from "../asks/private-git.ts"

const exec = promisify(execFile)

const PROXY_PORT = 3128

/** Chooses a network for each process of the tests: two addresses, the machine's and the company's. */
const addresses = (): readonly [string, string] => {
  const block = `10.217.${process.pid & 255}`
  const first = ((process.pid >> 8) & 63) * 4
  return [`${block}.${first + 1}`, `${block}.${first + 2}`]
}

export type Company = Awaited<ReturnType<typeof openCompany>>

/** Opens a company whose servers are reached through its proxy alone, and have certificates of its own authority. */
export const openCompany = async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-company-"))
  await makeCertificates(directory)
  const { commit } = makeRepo(join(directory, "git/app"))
  git(directory, "clone", "--quiet", "--bare", "git/app", "git/app.git")
  await makePackage(directory)
  const [machine, proxy] = addresses()
  const program = join(import.meta.dirname, "company-host.ts")
  const child = spawn(
    "unshare",
    ["--net", process.execPath, "--conditions=source", program, directory, String(PROXY_PORT)],
    { stdio: ["pipe", "pipe", "inherit"] },
  )
  const ended = once(child, "exit")
  /** The names and ports that were asked of the proxy. */
  const asked: string[] = []
  const lines = createInterface({ input: child.stdout })
  const [first] = await Promise.race([once(lines, "line"), ended.then(() => [])])
  if (first !== "ready") throw new Error("the company's servers ended at their start")
  lines.on("line", (line) => asked.push(line))
  const inside = ["nsenter", `--net=/proc/${child.pid}/ns/net`]
  const device = `bc${child.pid}`
  for (const line of [
    `ip link add ${device} type veth peer name up0 netns ${child.pid}`,
    `ip address add ${machine}/30 dev ${device}`,
    `ip link set ${device} up`,
    `${inside.join(" ")} ip address add ${proxy}/30 dev up0`,
    `${inside.join(" ")} ip link set up0 up`,
    `${inside.join(" ")} ip link set lo up`,
  ]) {
    const [tool = "", ...args] = line.split(" ")
    await exec(tool, args)
  }
  /** The path of the certificate of the company's authority, which `install` puts there. */
  const installed = join(directory, "installed.pem")
  return {
    asked,
    commit,
    /** The company's only address that a workspace has to allow. */
    allow: [`${proxy}/32`],
    variables: {
      HTTPS_PROXY: `http://${proxy}:${PROXY_PORT}`,
      NODE_EXTRA_CA_CERTS: installed,
    },
    installed,
    install: () => copyFileSync(join(directory, "ca.pem"), installed),
    close: async () => {
      child.stdin.end()
      await ended
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Makes an authority, and a certificate of it for the company's names. */
const makeCertificates = async (directory: string): Promise<void> => {
  const openssl = (...args: string[]) => exec("openssl", args, { cwd: directory })
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
  await openssl(
    ...["req", "-x509", ...key, "-subj", "/O=Company/CN=Company Root", "-days", "2"],
    ...["-keyout", "ca.key", "-out", "ca.pem"],
  )
  await openssl(
    ...["req", ...key, "-subj", "/CN=*.company.test", "-keyout", "key.pem", "-out", "request.pem"],
  )
  writeFileSync(join(directory, "names"), "subjectAltName=DNS:*.company.test\n")
  await openssl(
    ...[
      "x509",
      "-req",
      "-in",
      "request.pem",
      "-CA",
      "ca.pem",
      "-CAkey",
      "ca.key",
      "-CAcreateserial",
    ],
    ...["-days", "2", "-extfile", "names", "-out", "cert.pem"],
  )
}

/** The files that npm, and git over HTTPS, need of a system beside node and git themselves. */
export const npmFiles = async (): Promise<string[]> => {
  const script = `
    npm=$(readlink -f "$(command -v npm)")
    find "\${npm%/bin/*}" ! -type d
    command -v npm
    ldd "$(git --exec-path)/git-remote-https" | awk '$3 { print $3 }' | while read -r library; do
      echo "$library"; readlink -f "$library"
    done`
  const path = "/usr/local/bin:/usr/bin:/bin"
  const { stdout } = await exec("sh", ["-euc", script], { env: { PATH: path } })
  // The loader names libraries by a link of the system's root.
  const lines = stdout.split("\n").filter((line) => line !== "")
  return lines.map((line) => line.replace(/^\/lib\//, "/usr/lib/"))
}

const PACKAGE = { name: "company-greeting", version: "1.0.0", main: "index.js" }

/** Makes a package as a registry has it. */
const makePackage = async (directory: string): Promise<void> => {
  const place = join(directory, "npm")
  mkdirSync(join(place, "package"), { recursive: true })
  writeFileSync(join(place, "package/package.json"), JSON.stringify(PACKAGE))
  writeFileSync(join(place, "package/index.js"), 'module.exports = "hello from the company"\n')
  await exec("tar", ["--create", "--gzip", "--file", "package.tgz", "package"], { cwd: place })
  const digest = createHash("sha512").update(readFileSync(join(place, "package.tgz")))
  const dist = {
    tarball: "https://npm.company.test/company-greeting/-/company-greeting-1.0.0.tgz",
    integrity: `sha512-${digest.digest("base64")}`,
  }
  const { name, version } = PACKAGE
  const about = {
    name,
    "dist-tags": { latest: version },
    versions: { [version]: { ...PACKAGE, dist } },
  }
  writeFileSync(join(place, "package.json"), JSON.stringify(about))
}
