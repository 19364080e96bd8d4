import { execFileSync } from "node:child_process"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"

/** A separate user if the tests run as root. */
export const USER = process.getuid?.() === 0 ? { uid: 1234, gid: 1234 } : undefined

const SETTINGS = ["user.name=Ada", "user.email=ada@example.com", "init.defaultBranch=main"]

/** A workspace of the user's with a repo `shop`, removed after the test. */
export class TestRepo {
  readonly workspace = mkdtempSync(join(tmpdir(), "berth-git-"))
  readonly root = join(this.workspace, "shop")
  readonly environment = { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: this.workspace }

  constructor() {
    onTestFinished(() => rmSync(this.workspace, { recursive: true, force: true }))
    chmodSync(this.workspace, 0o755)
    mkdirSync(this.root)
    if (USER !== undefined)
      for (const path of [this.workspace, this.root]) chownSync(path, USER.uid, USER.gid)
    this.git("init", "--quiet")
  }

  /** Runs git as the user, with a name of its own. */
  git(...args: string[]): string {
    const config = SETTINGS.flatMap((setting) => ["-c", setting])
    return execFileSync("git", [...config, ...args], {
      cwd: this.root,
      env: this.environment,
      encoding: "utf8",
      ...USER,
      stdio: ["ignore", "pipe", "pipe"],
    }).trim()
  }

  write(name: string | Buffer, content: string | Buffer): void {
    const path = Buffer.concat([Buffer.from(`${this.root}/`), Buffer.from(name)])
    writeFileSync(path, content)
    if (USER !== undefined) chownSync(path, USER.uid, USER.gid)
  }

  commit(message: string): string {
    this.git("add", "--all")
    this.git("commit", "--quiet", "-m", message)
    return this.git("rev-parse", "HEAD")
  }
}
