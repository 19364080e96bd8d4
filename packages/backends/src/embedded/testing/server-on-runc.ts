import { serve } from "../../testing/serve.ts"
import { DATA_DISK } from "../../testing/server-process.ts"
import { openHarnessOnRunc } from "./on-runc.ts"

const disk = process.env[DATA_DISK]
if (disk !== undefined) process.env.TMPDIR = disk
serve(await openHarnessOnRunc())
