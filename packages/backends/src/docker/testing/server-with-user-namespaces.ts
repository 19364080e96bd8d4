import { tmpdir } from "node:os"
import { serve } from "../../testing/serve.ts"
import { DATA_DISK } from "../../testing/server-process.ts"
import { openHarnessWithUserNamespaces } from "./with-user-namespaces.ts"

serve(
  await openHarnessWithUserNamespaces({
    networks: true,
    dataIn: process.env[DATA_DISK] ?? tmpdir(),
  }),
)
