-- What Rails (Active Record) sends to PostgreSQL for migrations of a shop, forward and back: a section a migration, as
-- its log shows it. `-- up` and `-- down` begin the two directions; `alone`: each statement commits by itself, as
-- after disable_ddl_transaction!. All others are one transaction each.

-- 20240101000000 first of all
-- up alone
CREATE TABLE "schema_migrations" ("version" character varying NOT NULL PRIMARY KEY);
CREATE TABLE "ar_internal_metadata" ("key" character varying NOT NULL PRIMARY KEY, "value" character varying, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL);
INSERT INTO "ar_internal_metadata" ("key", "value", "created_at", "updated_at") VALUES ('environment', 'production', '2024-01-01 00:00:00.123456', '2024-01-01 00:00:00.123456') RETURNING "key";
-- down

-- 20240102000000 create_users
-- up
CREATE TABLE "users" ("id" bigserial primary key, "email" character varying DEFAULT '' NOT NULL, "encrypted_password" character varying DEFAULT '' NOT NULL, "sign_in_count" integer DEFAULT 0 NOT NULL, "current_sign_in_ip" inet, "admin" boolean DEFAULT FALSE NOT NULL, "balance" decimal(12,2) DEFAULT 0.0 NOT NULL, "birthday" date, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL);
CREATE UNIQUE INDEX "index_users_on_email" ON "users" ("email");
-- down
DROP TABLE "users";

-- 20240103000000 create_posts
-- up
CREATE TABLE "posts" ("id" bigserial primary key, "title" character varying(200), "body" text, "user_id" bigint NOT NULL, "views" integer DEFAULT 0, "published_at" timestamp(6), "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL, CONSTRAINT "fk_rails_5b5ddfd518" FOREIGN KEY ("user_id") REFERENCES "users" ("id"));
CREATE INDEX "index_posts_on_user_id" ON "posts" ("user_id");
CREATE INDEX "index_posts_on_published_at_and_user_id" ON "posts" ("published_at" DESC, "user_id");
-- down
DROP TABLE "posts";

-- 20240104000000 create_comments, polymorphic
-- up
CREATE TABLE "comments" ("id" bigserial primary key, "commentable_type" character varying NOT NULL, "commentable_id" bigint NOT NULL, "author_id" bigint, "parent_id" bigint, "body" text NOT NULL, "lock_version" integer DEFAULT 0 NOT NULL, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL, CONSTRAINT "fk_rails_36844a2b2f" FOREIGN KEY ("author_id") REFERENCES "users" ("id") ON DELETE SET NULL, CONSTRAINT "fk_rails_31554e7034" FOREIGN KEY ("parent_id") REFERENCES "comments" ("id") ON DELETE CASCADE);
CREATE INDEX "index_comments_on_commentable" ON "comments" ("commentable_type", "commentable_id");
CREATE INDEX "index_comments_on_author_id" ON "comments" ("author_id");
CREATE INDEX "index_comments_on_parent_id" ON "comments" ("parent_id");
-- down
DROP TABLE "comments";

-- 20240105000000 create_join_table
-- up
CREATE TABLE "tags" ("id" bigserial primary key, "name" character varying NOT NULL, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL);
CREATE TABLE "posts_tags" ("post_id" bigint NOT NULL, "tag_id" bigint NOT NULL);
CREATE UNIQUE INDEX "index_posts_tags_on_post_id_and_tag_id" ON "posts_tags" ("post_id", "tag_id");
CREATE INDEX "index_posts_tags_on_tag_id" ON "posts_tags" ("tag_id");
-- down
DROP TABLE "posts_tags";
DROP TABLE "tags";

-- 20240106000000 add_slug_to_posts
-- up
ALTER TABLE "posts" ADD "slug" character varying;
ALTER TABLE "posts" ADD "reading_minutes" integer DEFAULT 3 NOT NULL;
UPDATE "posts" SET "slug" = 'post-' || "posts"."id";
ALTER TABLE "posts" ALTER COLUMN "slug" SET NOT NULL;
CREATE UNIQUE INDEX "index_posts_on_slug" ON "posts" ("slug");
-- down
DROP INDEX "index_posts_on_slug";
ALTER TABLE "posts" DROP COLUMN "reading_minutes";
ALTER TABLE "posts" DROP COLUMN "slug";

-- 20240107000000 change_views_to_bigint
-- up
ALTER TABLE "posts" ALTER COLUMN "views" TYPE bigint;
ALTER TABLE "posts" ALTER COLUMN "title" TYPE text;
UPDATE "posts" SET "title"='' WHERE "title" IS NULL;
ALTER TABLE "posts" ALTER COLUMN "title" SET NOT NULL;
ALTER TABLE "posts" ALTER COLUMN "views" SET DEFAULT 1;
-- down
ALTER TABLE "posts" ALTER COLUMN "views" SET DEFAULT 0;
ALTER TABLE "posts" ALTER COLUMN "title" DROP NOT NULL;
UPDATE "posts" SET "title" = left("title", 200);
ALTER TABLE "posts" ALTER COLUMN "title" TYPE character varying(200);
UPDATE "posts" SET "views" = 7 WHERE "views" > 2147483647 OR "views" < -2147483648;
ALTER TABLE "posts" ALTER COLUMN "views" TYPE integer;

-- 20240108000000 rename_posts_to_articles
-- up
ALTER TABLE "posts" RENAME TO "articles";
ALTER TABLE "public"."posts_id_seq" RENAME TO "articles_id_seq";
ALTER INDEX "posts_pkey" RENAME TO "articles_pkey";
ALTER INDEX "index_posts_on_user_id" RENAME TO "index_articles_on_user_id";
ALTER INDEX "index_posts_on_published_at_and_user_id" RENAME TO "index_articles_on_published_at_and_user_id";
ALTER INDEX "index_posts_on_slug" RENAME TO "index_articles_on_slug";
ALTER TABLE "articles" RENAME COLUMN "body" TO "content";
ALTER TABLE "posts_tags" RENAME TO "articles_tags";
ALTER TABLE "articles_tags" RENAME COLUMN "post_id" TO "article_id";
ALTER INDEX "index_posts_tags_on_post_id_and_tag_id" RENAME TO "index_articles_tags_on_article_id_and_tag_id";
ALTER INDEX "index_posts_tags_on_tag_id" RENAME TO "index_articles_tags_on_tag_id";
-- down
ALTER INDEX "index_articles_tags_on_tag_id" RENAME TO "index_posts_tags_on_tag_id";
ALTER INDEX "index_articles_tags_on_article_id_and_tag_id" RENAME TO "index_posts_tags_on_post_id_and_tag_id";
ALTER TABLE "articles_tags" RENAME COLUMN "article_id" TO "post_id";
ALTER TABLE "articles_tags" RENAME TO "posts_tags";
ALTER TABLE "articles" RENAME COLUMN "content" TO "body";
ALTER INDEX "index_articles_on_slug" RENAME TO "index_posts_on_slug";
ALTER INDEX "index_articles_on_published_at_and_user_id" RENAME TO "index_posts_on_published_at_and_user_id";
ALTER INDEX "index_articles_on_user_id" RENAME TO "index_posts_on_user_id";
ALTER TABLE "articles" RENAME TO "posts";
ALTER TABLE "public"."articles_id_seq" RENAME TO "posts_id_seq";
ALTER INDEX "articles_pkey" RENAME TO "posts_pkey";

-- 20240109000000 create_enum and what only PostgreSQL has
-- up
CREATE TYPE "order_status" AS ENUM ('cart', 'paid', 'sent');
CREATE TABLE "orders" ("id" uuid DEFAULT gen_random_uuid() NOT NULL PRIMARY KEY, "user_id" bigint NOT NULL, "status" order_status DEFAULT 'cart' NOT NULL, "details" jsonb DEFAULT '{}' NOT NULL, "notes" character varying[] DEFAULT '{}', "total_cents" bigint DEFAULT 0 NOT NULL, "valid_during" daterange, "token" bytea, "created_at" timestamptz(6) NOT NULL, "updated_at" timestamptz NOT NULL, "total" numeric(20,2) GENERATED ALWAYS AS ((("total_cents")::numeric / (100)::numeric)) STORED, CONSTRAINT "fk_rails_f868b47f6a" FOREIGN KEY ("user_id") REFERENCES "users" ("id"));
CREATE INDEX "index_orders_on_user_id" ON "orders" ("user_id");
CREATE INDEX "index_orders_on_details" ON "orders" USING gin ("details");
CREATE INDEX "index_orders_on_lower_notes" ON "orders" (lower("notes"[1]));
CREATE INDEX "index_orders_on_created_at" ON "orders" USING brin ("created_at");
CREATE UNIQUE INDEX "index_orders_on_user_id_where_cart" ON "orders" ("user_id") WHERE status = 'cart'::order_status;
COMMENT ON TABLE "orders" IS 'What people buy; ''quoted'' and "so"';
COMMENT ON COLUMN "orders"."token" IS 'Secret – ümlaut';
-- down
DROP TABLE "orders";
DROP TYPE IF EXISTS "order_status";

-- 20240110000000 add_check_constraint
-- up
ALTER TABLE "orders" ADD CONSTRAINT "chk_rails_total_cents" CHECK (total_cents >= 0) NOT VALID;
ALTER TABLE "users" ADD CONSTRAINT "chk_rails_sign_in_count" CHECK (sign_in_count > -1000000000);
-- down
ALTER TABLE "users" DROP CONSTRAINT "chk_rails_sign_in_count";
ALTER TABLE "orders" DROP CONSTRAINT "chk_rails_total_cents";

-- 20240111000000 validate_check_constraint
-- up
ALTER TABLE "orders" VALIDATE CONSTRAINT "chk_rails_total_cents";
-- down

-- 20240112000000 add_index concurrently
-- up alone
CREATE INDEX CONCURRENTLY IF NOT EXISTS "index_articles_on_title" ON "articles" ("title");
CREATE INDEX CONCURRENTLY IF NOT EXISTS "index_users_on_admin_and_balance" ON "users" ("admin", "balance") INCLUDE ("email");
ALTER TYPE "order_status" ADD VALUE IF NOT EXISTS 'returned' BEFORE 'sent';
ALTER TYPE "order_status" RENAME VALUE 'sent' TO 'on its way';
-- down alone
ALTER TYPE "order_status" RENAME VALUE 'on its way' TO 'sent';
DROP INDEX CONCURRENTLY "index_users_on_admin_and_balance";
DROP INDEX CONCURRENTLY IF EXISTS "index_articles_on_title";

-- 20240113000000 add_reference, a foreign key that is validated later
-- up
ALTER TABLE "articles" ADD "editor_id" bigint;
CREATE INDEX "index_articles_on_editor_id" ON "articles" ("editor_id");
ALTER TABLE "articles" ADD CONSTRAINT "fk_rails_editor0001" FOREIGN KEY ("editor_id") REFERENCES "users" ("id") ON DELETE SET NULL NOT VALID;
-- down
ALTER TABLE "articles" DROP CONSTRAINT "fk_rails_editor0001";
DROP INDEX "index_articles_on_editor_id";
ALTER TABLE "articles" DROP COLUMN "editor_id";

-- 20240114000000 validate_foreign_key
-- up
UPDATE "articles" SET "editor_id" = "user_id" WHERE "articles"."id" % 2 = 0;
ALTER TABLE "articles" VALIDATE CONSTRAINT "fk_rails_editor0001";
-- down

-- 20240115000000 the keys of users become uuids
-- up
ALTER TABLE "users" ADD "uuid" uuid DEFAULT gen_random_uuid() NOT NULL;
ALTER TABLE "orders" ADD "user_uuid" uuid;
UPDATE "orders" SET "user_uuid" = "users"."uuid" FROM "users" WHERE "users"."id" = "orders"."user_id";
ALTER TABLE "orders" DROP CONSTRAINT "fk_rails_f868b47f6a";
ALTER TABLE "orders" DROP COLUMN "user_id";
ALTER TABLE "orders" RENAME COLUMN "user_uuid" TO "user_id";
CREATE UNIQUE INDEX "index_users_on_uuid" ON "users" ("uuid");
ALTER TABLE "orders" ADD CONSTRAINT "fk_rails_f868b47f6a" FOREIGN KEY ("user_id") REFERENCES "users" ("uuid");
-- down
ALTER TABLE "orders" DROP CONSTRAINT "fk_rails_f868b47f6a";
ALTER TABLE "orders" RENAME COLUMN "user_id" TO "user_uuid";
ALTER TABLE "orders" ADD "user_id" bigint;
UPDATE "orders" SET "user_id" = "users"."id" FROM "users" WHERE "users"."uuid" = "orders"."user_uuid";
DELETE FROM "orders" WHERE "user_id" IS NULL OR "id" NOT IN (SELECT DISTINCT ON ("user_id") "id" FROM "orders" WHERE "status" = 'cart') AND "status" = 'cart';
ALTER TABLE "orders" ALTER COLUMN "user_id" SET NOT NULL;
ALTER TABLE "orders" DROP COLUMN "user_uuid";
CREATE INDEX "index_orders_on_user_id" ON "orders" ("user_id");
CREATE UNIQUE INDEX "index_orders_on_user_id_where_cart" ON "orders" ("user_id") WHERE status = 'cart'::order_status;
ALTER TABLE "orders" ADD CONSTRAINT "fk_rails_f868b47f6a" FOREIGN KEY ("user_id") REFERENCES "users" ("id");
DROP INDEX "index_users_on_uuid";
ALTER TABLE "users" DROP COLUMN "uuid";

-- 20240116000000 change_column_default, using, and a table that changes its key
-- up
ALTER TABLE "users" ALTER COLUMN "admin" DROP DEFAULT;
ALTER TABLE "users" ALTER COLUMN "admin" TYPE integer USING CASE WHEN admin THEN 2 ELSE 1 END;
ALTER TABLE "users" RENAME COLUMN "admin" TO "role";
ALTER TABLE "users" ALTER COLUMN "role" SET DEFAULT 1;
ALTER TABLE "comments" ALTER COLUMN "commentable_id" TYPE character varying;
ALTER TABLE "articles_tags" ADD "id" bigserial primary key;
ALTER TABLE "articles_tags" ADD "created_at" timestamp(6) DEFAULT CURRENT_TIMESTAMP NOT NULL;
-- down
ALTER TABLE "articles_tags" DROP COLUMN "created_at";
ALTER TABLE "articles_tags" DROP COLUMN "id";
DELETE FROM "comments" WHERE "commentable_id" !~ '^[0-9]{1,18}$';
ALTER TABLE "comments" ALTER COLUMN "commentable_id" TYPE bigint USING commentable_id::bigint;
ALTER TABLE "users" ALTER COLUMN "role" DROP DEFAULT;
ALTER TABLE "users" RENAME COLUMN "role" TO "admin";
ALTER TABLE "users" ALTER COLUMN "admin" TYPE boolean USING admin > 1;
ALTER TABLE "users" ALTER COLUMN "admin" SET DEFAULT FALSE;

-- 20240117000000 create_table force: :cascade
-- up
DROP TABLE IF EXISTS "tags" CASCADE;
CREATE TABLE "tags" ("id" bigserial primary key, "name" character varying NOT NULL, "taggings_count" integer DEFAULT 0, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL);
CREATE UNIQUE INDEX "index_tags_on_name" ON "tags" ("name");
CREATE TABLE "active_storage_blobs" ("id" bigserial primary key, "key" character varying NOT NULL, "filename" character varying NOT NULL, "content_type" character varying, "metadata" text, "service_name" character varying NOT NULL, "byte_size" bigint NOT NULL, "checksum" character varying, "created_at" timestamp(6) NOT NULL);
CREATE UNIQUE INDEX "index_active_storage_blobs_on_key" ON "active_storage_blobs" ("key");
CREATE TABLE "active_storage_attachments" ("id" bigserial primary key, "name" character varying NOT NULL, "record_type" character varying NOT NULL, "record_id" bigint NOT NULL, "blob_id" bigint NOT NULL, "created_at" timestamp(6) NOT NULL, CONSTRAINT "fk_rails_c3b3935057" FOREIGN KEY ("blob_id") REFERENCES "active_storage_blobs" ("id"));
CREATE INDEX "index_active_storage_attachments_on_blob_id" ON "active_storage_attachments" ("blob_id");
CREATE UNIQUE INDEX "index_active_storage_attachments_uniqueness" ON "active_storage_attachments" ("record_type", "record_id", "name", "blob_id");
-- down
DROP TABLE "active_storage_attachments";
DROP TABLE "active_storage_blobs";
DROP TABLE IF EXISTS "tags" CASCADE;
CREATE TABLE "tags" ("id" bigserial primary key, "name" character varying NOT NULL, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL);
